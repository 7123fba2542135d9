/** Parse server-sent events. `EventSource` cannot send an API key, so the stream is read with `fetch`. */

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** Feed text in chunks and get the complete events. */
export function eventReader(): (piece: string) => ServerEvent[] {
  let rest = "";
  let id = "";
  let event = "";
  let data: string[] = [];

  function line(text: string): ServerEvent | null {
    if (text === "") return dispatch();
    const colon = text.indexOf(":");
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    else if (field === "event") event = value;
    else if (field === "id") id = value;
    return null;
  }

  function dispatch(): ServerEvent | null {
    const found = data.length > 0 ? { id, event: event || "message", data: data.join("\n") } : null;
    [event, data] = ["", []];
    return found;
  }

  return (piece) => {
    const found: ServerEvent[] = [];
    rest += piece;
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const text of lines) {
      const whole = line(text);
      if (whole !== null) found.push(whole);
    }
    return found;
  };
}
