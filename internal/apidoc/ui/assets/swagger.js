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
  // From 150 entries on, a list of operations holds only those in sight: the browser's
  // search finds no others, and what is typed into one is lost on scrolling by. A list for
  // each tag stays below that.
  const listByTag = {
    wrapComponents: {
      operations: (List, { React }) => (props) => {
        const all = props.specSelectors.taggedOperations();
        return all.keySeq().toArray().map((tag) => React.createElement(List, {
          ...props, key: tag, specSelectors: { ...props.specSelectors, taggedOperations: () => all.filter((_, name) => name === tag) },
        }));
      },
    },
  };
  // Swagger UI keeps credentials in localStorage, if at all. Here they live as long as the
  // tab, so that a reload doesn't sign out.
  const kept = "swagger-ui-auth";
  const keepAuthorization = {
    statePlugins: {
      auth: {
        wrapActions: {
          persistAuthorizationIfNeeded: (_, { authSelectors }) => () => sessionStorage.setItem(kept, JSON.stringify(authSelectors.authorized().toJS())),
        },
      },
    },
  };
  // Each field of the dialog for credentials takes the focus, and the last one keeps it: the
  // dialog would begin with the scheme that is used least.
  const firstSchemeFirst = {
    statePlugins: {
      auth: {
        wrapActions: {
          showDefinitions: (show) => (definitions) => {
            setTimeout(() => {
              document.querySelector(".modal-ux-content input")?.focus({ preventScroll: true });
              document.querySelector(".modal-ux-content")?.scrollTo(0, 0);
            });
            return show(definitions);
          },
        },
      },
    },
  };
  // A link to an operation ends with its head below the bar, not behind it: the style sheet
  // says how far from the top.
  const scrollBelowBar = {
    statePlugins: {
      layout: { wrapActions: { scrollToElement: () => (element) => element.scrollIntoView() } },
    },
  };
  // Whoever chose a mode in Scalar has it here too; else it is the system's.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    const chosen = localStorage.getItem("colorMode");
    document.documentElement.classList.toggle("dark-mode", chosen === "dark" || (chosen !== "light" && dark.matches));
  };
  paint();
  dark.addEventListener("change", paint);
  const ui = SwaggerUIBundle({
    ...source,
    dom_id: "#reference",
    deepLinking: true,
    validatorUrl: null,
    persistAuthorization: false,
    defaultModelsExpandDepth: 0,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    plugins: [listByTag, scrollBelowBar, ...(settings.readOnly ? [noAuthorization] : [keepAuthorization, firstSchemeFirst])],
    ...(settings.readOnly ? { supportedSubmitMethods: [] } : {}),
    onComplete: () => {
      const authorized = sessionStorage.getItem(kept);
      if (authorized && !settings.readOnly) ui.authActions.restoreAuthorization({ authorized: JSON.parse(authorized) });
    },
  });
})();
