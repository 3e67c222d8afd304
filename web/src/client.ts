// A typed way to call the daemon from a browser. The types come from docs/openapi.json, which is generated
// from the router: when a route changes shape, this file stops compiling.
import type { components, paths } from "./generated/api";

export type Problem = components["schemas"]["Problem"];
export type Worktree = components["schemas"]["Worktree"];

type Get = { [P in keyof paths]: paths[P] extends { get: { responses: { 200: unknown } } } ? P : never }[keyof paths];
type Body<P extends Get> = paths[P] extends {
  get: { responses: { 200: { content: { "application/json": infer T } } } };
}
  ? T
  : never;

/** What the daemon refused, with the words it used. */
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

/** Reads one resource. Path parameters are filled in and escaped. */
export async function read<P extends Get>(
  base: string,
  token: string,
  path: P,
  parameters: Record<string, string> = {},
): Promise<Body<P>> {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(parameters[name] ?? ""));
  const answer = await fetch(base + filled, { headers: { authorization: `Bearer ${token}` }, redirect: "error" });
  if (!answer.ok) throw new Refused((await answer.json()) as Problem);
  return (await answer.json()) as Body<P>;
}

/** One worktree. */
export async function worktree(base: string, token: string, id: string): Promise<Worktree> {
  return read(base, token, "/api/v1/worktrees/{worktree}", { worktree: id });
}
