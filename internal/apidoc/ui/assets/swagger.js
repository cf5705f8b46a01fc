"use strict";
(() => {
  const settings = JSON.parse(document.getElementById("settings").textContent);
  const source = settings.document
    ? { spec: settings.document }
    : { url: new URL(settings.url, document.baseURI).href };
  const nothing = () => () => null;
  // Try it out obeys supportedSubmitMethods; Authorize has no option of its own.
  const noAuthorization = {
    wrapComponents: { authorizeBtn: nothing, authorizeOperationBtn: nothing, AuthorizeBtnContainer: nothing, AuthorizeOperationBtnContainer: nothing },
  };
  SwaggerUIBundle({
    ...source,
    dom_id: "#reference",
    deepLinking: true,
    validatorUrl: null,
    persistAuthorization: false,
    defaultModelsExpandDepth: 0,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    ...(settings.readOnly ? { supportedSubmitMethods: [], plugins: [noAuthorization] } : {}),
  });
})();
