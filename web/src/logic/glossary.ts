/** The words of the inspector, as the documentation uses them. */

export const GLOSSARY = {
  Context: "What a model sees for one answer: the request, and the record of how it came about.",
  Candidate: "Anything that could have been part of a context: a message, a memory, a lorebook entry, a summary, a note.",
  Window: "The number of tokens that a model can read and write for one answer.",
  Reserve: "The part of the window that stays free for the answer. The safety margin, next to it, allows for inexact counts.",
  Policy: "The rules by which the window is filled: its pools, the weights of the score, the price and the reserve.",
  Pool: "A part of the window with a limit of its own, such as the one for recent messages. Each candidate belongs to one.",
  Score: "What a candidate is worth for this answer, from 0 to 1. It combines relevance, priority, importance and recency.",
  Relevance: "The probability that a candidate helps to answer the question. Search estimates it.",
  Price: "The score that 1,000 tokens have to be worth. What is worth less than its tokens cost is left out, even if there is room.",
  Place: "The rank of a candidate in its pool: the best first, in history the newest first.",
  Form: "How much of an item the model sees: all of it (full), or a shorter form such as an excerpt, a digest or a stub.",
  Prefix: "The beginning of a request that is the same as in the request before. A provider can take it from its prompt cache, which is faster and cheaper.",
} as const;

export type Term = keyof typeof GLOSSARY;

const WORDS: [RegExp, Term][] = [[/\bpools?\b/i, "Pool"], [/\bprice\b/i, "Price"], [/\bforms?\b/i, "Form"], [/\bprefix\b/i, "Prefix"]];

/** A text in pieces. Each ends with a word of the glossary where the text uses it first, except the last piece. */
export function withTerms(text: string): { text: string; term?: Term }[] {
  const ends = WORDS.flatMap(([word, term]) => {
    const hit = word.exec(text);
    return hit ? [{ end: hit.index + hit[0].length, term }] : [];
  }).sort((a, b) => a.end - b.end);
  let start = 0;
  const pieces = ends.map(({ end, term }) => {
    const piece = { text: text.slice(start, end), term };
    start = end;
    return piece;
  });
  return [...pieces, { text: text.slice(start) }];
}
