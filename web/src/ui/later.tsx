/** A page whose code is loaded when it is first shown, so that the first visit stays small. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

import { focusHeading } from "../router";

export function later<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | null = null;
  return function Later(props: Props) {
    const [, setShown] = useState(false);
    useEffect(() => {
      if (loaded) return;
      void load().then((page) => {
        loaded = page;
        setShown(true);
        focusHeading();
      });
    }, []);
    const Page = loaded;
    return Page && <Page {...props} />;
  };
}
