/** The library that draws plots, in a file of its own: only who looks at statistics loads it. */

import "uplot/dist/uPlot.min.css";

export { default } from "uplot";
