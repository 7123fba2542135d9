import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/picture.css";
import "./styles/table.css";
import "./styles/pages.css";

import { render } from "preact";

import { App } from "./app";
import { listen } from "./router";
import { applyTheme } from "./theme";

applyTheme();
listen();
const root = document.getElementById("app");
if (root) render(<App />, root);
