// Signs and verifies deliveries with the providers' own libraries. Reads a list of
// {preset, act: "sign" | "verify", secret, body, headers} from the file that it is given,
// and prints for each {headers} or {ok}, or {cannot: true} where the library only verifies.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { sign, verify } from "@octokit/webhooks-methods";
import { LinearWebhookClient } from "@linear/sdk/webhooks";
import "@shopify/shopify-api/adapters/node";
import { shopifyApi, ApiVersion } from "@shopify/shopify-api";
import { Webhook as Standard } from "standardwebhooks";
import { Webhook as Svix } from "svix";
import Stripe from "stripe";

const require = createRequire(import.meta.url);
const { verifySlackRequest } = require("@slack/bolt");
const { Paddle } = require("@paddle/paddle-node-sdk");

const stripe = new Stripe("sk_test_123");
const list = (prefix, Webhook) => ({
  sign: ({ secret, body }) => {
    const now = new Date();
    return {
      [`${prefix}-id`]: "msg_1",
      [`${prefix}-timestamp`]: String(Math.floor(now.getTime() / 1000)),
      [`${prefix}-signature`]: new Webhook(secret).sign("msg_1", now, body),
    };
  },
  verify: ({ secret, body, headers }) => void new Webhook(secret).verify(body, headers),
});

const libraries = {
  stripe: {
    sign: ({ secret, body }) => ({ "stripe-signature": stripe.webhooks.generateTestHeaderString({ payload: body, secret }) }),
    verify: ({ secret, body, headers }) => void stripe.webhooks.constructEvent(body, headers["stripe-signature"], secret),
  },
  github: {
    sign: async ({ secret, body }) => ({ "x-hub-signature-256": await sign(secret, body), "x-github-event": "push", "x-github-delivery": "d-1" }),
    verify: async ({ secret, body, headers }) => must(await verify(secret, body, headers["x-hub-signature-256"])),
  },
  shopify: {
    verify: async ({ secret, body, headers }) => {
      const shopify = shopifyApi({
        apiKey: "key", apiSecretKey: secret, scopes: [], hostName: "waypost.example", apiVersion: Object.values(ApiVersion)[0], isEmbeddedApp: false,
        logger: { log: () => {} },
      });
      const all = { "x-shopify-shop-domain": "shop.myshopify.com", "x-shopify-api-version": "2025-01", ...headers };
      const rawRequest = { method: "POST", url: "/", headers: all };
      must((await shopify.webhooks.validate({ rawBody: body, rawRequest, rawResponse: {} })).valid);
    },
  },
  slack: {
    verify: ({ secret, body, headers }) =>
      verifySlackRequest({
        signingSecret: secret, body,
        headers: { "x-slack-signature": headers["x-slack-signature"], "x-slack-request-timestamp": Number(headers["x-slack-request-timestamp"]) },
      }),
  },
  paddle: {
    verify: async ({ secret, body, headers }) => must(await new Paddle("key").webhooks.isSignatureValid(body, secret, headers["paddle-signature"])),
  },
  linear: {
    verify: ({ secret, body, headers }) => must(new LinearWebhookClient(secret).verify(Buffer.from(body), headers["linear-signature"])),
  },
  "standard-webhooks": list("webhook", Standard),
  svix: list("svix", Svix),
};

function must(ok) {
  if (!ok) throw new Error("not valid");
}

const answers = [];
for (const task of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  const act = libraries[task.preset][task.act];
  if (!act) {
    answers.push({ cannot: true });
    continue;
  }
  try {
    const headers = await act(task);
    answers.push(task.act === "sign" ? { headers } : { ok: true });
  } catch (e) {
    answers.push({ ok: false, error: String(e) });
  }
}
process.stdout.write(JSON.stringify(answers));
