"use strict";
(() => {
  const settings = JSON.parse(document.getElementById("settings").textContent);
  const source = settings.document
    ? { content: settings.document }
    : { url: new URL(settings.url, document.baseURI).href };
  // Scalar keeps credentials in localStorage, where they outlive the window and every other
  // page finds them. Here they live as long as the tab.
  for (const method of ["getItem", "setItem", "removeItem"]) {
    const original = Storage.prototype[method];
    Storage.prototype[method] = function (key, ...rest) {
      const credentials = this === localStorage && String(key).startsWith("scalar-reference-auth");
      return original.call(credentials ? sessionStorage : this, key, ...rest);
    };
  }
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
    ...(settings.scheme ? { authentication: { preferredSecurityScheme: settings.scheme } } : {}),
    persistAuth: !settings.readOnly,
  });
})();
