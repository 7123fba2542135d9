/** The plot library in a chunk of its own, loaded only on the statistics page. */

import "uplot/dist/uPlot.min.css";

export { default } from "uplot";
