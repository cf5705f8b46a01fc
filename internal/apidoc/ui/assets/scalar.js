"use strict";
(() => {
  const settings = JSON.parse(document.getElementById("settings").textContent);
  const source = settings.document
    ? { content: settings.document }
    : { url: new URL(settings.url, document.baseURI).href };
  Scalar.createApiReference("#reference", {
    ...source,
    theme: settings.theme,
    // Nothing from another host, nothing reported, no assistant.
    withDefaultFonts: false,
    telemetry: false,
    agent: { disabled: true },
    mcp: { disabled: true },
    showDeveloperTools: "never",
    hideClientButton: true,
    hideTestRequestButton: settings.readOnly,
    persistAuth: false,
  });
})();
