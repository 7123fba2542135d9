/** Usage statistics in the server's JSON. */

export interface Spread {
  mean: number;
  max: number;
  min: number;
}

export interface AnswerFigures {
  total: number;
  reported: number;
  prompt: number;
  cached: number;
  expected_cached: number;
  completion: number;
  reasoning: number;
  counted: number;
  naive: number;
  count_error: number | null;
  seconds: number | null;
  cache_misses: Record<string, number>;
  missed_tokens: Record<string, number>;
}

export interface Statistics {
  key: string;
  begin: number | null;
  contexts: number;
  tokens: Spread;
  share: Spread;
  total_tokens: number;
  components: { name: string; tokens: number; items: number; share: number }[];
  memories: { total: number; per_context: number; types: Record<string, number>; relevance: number | null };
  candidates: number;
  left_out: number;
  naive: number;
  warnings: Record<string, number>;
  breaker_openings: number;
  vector_uptime: number;
  answers: AnswerFigures;
  cost: number | null;
  saved: number | null;
}

/** What calls of models that Brimful made by itself spent. */
export interface OwnSpending {
  kinds: { kind: string; calls: number; prompt: number; completion: number; dollars: number; unpriced: number }[];
  tokens_today: number;
  dollars_today: number;
  tokens_per_day: number | null;
  dollars_per_day: number | null;
}

export interface StatisticsList {
  statistics: Statistics[];
  next: number | null;
  own_calls: OwnSpending;
}
