// Compiles only if the types made of the description say what it says.
import type { components, paths } from "./waypost";

type Login = paths["/api/auth/login"]["post"]["requestBody"]["content"]["application/json"];
export const login: Login = { email: "ada@example.com", password: "correct horse battery staple" };
// @ts-expect-error the password is required
export const noPassword: Login = { email: "ada@example.com" };

type Written = paths["/api/posts"]["post"]["responses"][200]["content"]["application/json"];
export const title = (answer: Written): string => answer.data.title;
// @ts-expect-error an id is a number
export const id = (answer: Written): string => answer.data.id;

export const role = (user: components["schemas"]["User"]): "USER" | "EDITOR" | "ADMIN" => user.role;

type Summary = paths["/api/stats/summary"]["get"]["responses"][200]["content"]["application/json"];
export const pagesPerSession = (s: Summary): number => s.pageviews / s.sessions;
