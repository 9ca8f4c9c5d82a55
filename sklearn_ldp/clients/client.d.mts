/** What a collector compares with its own: it is posted with each report. */
export const configuration: Readonly<Record<string, string | number | null> & { collection_round: string }>;

/** A category of the collection; null, undefined and NaN are a missing answer. A list is a tuple. */
export type Value = string | number | bigint | boolean | null | undefined | Value[];

/** The integers of a report in their order, as text where a number could not hold them. */
export type Report = number | (number | string)[];

/** Randomises a value. Each call spends epsilon of the user once more. */
export function privatize(value: Value): Report;

/** What keeps the memo of a user: localStorage, or any object with these two. */
export interface Memory {
  getItem(name: string): string | null;
  setItem(name: string, text: string): void;
}

/** A user who is asked a question again. Only in clients that were made with --epsilon-forever. */
export function repeated(storage: Memory, question: string): {
  /** The report of a round; the same one if the round was reported before. */
  report(value: Value, round?: string): Promise<Report>;
  /** What all reports have spent. */
  readonly spent: number;
};
