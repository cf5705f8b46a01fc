// Counts this site's pages without cookies: docs/statistics.md.
// <script defer src="https://waypost.example/stats.js" data-site-key="wps_..."></script>
(function (window, document, location, history, script) {
  function setting(name) {
    return script.getAttribute('data-' + name)
  }
  var source = script.src
  var endpoint = setting('api') || (/\/stats\.js/.test(source) ? source.replace(/\/stats\.js.*/, '') : new URL(source).origin) + '/api/collect'
  var hash = setting('hash') !== null
  var auto = setting('auto') || ''
  var earlier = window.waypost
  var referrer = document.referrer
  var page

  // With data-hash, what follows # is a part of the path.
  function address() {
    var path = location.pathname
    return location.origin + (hash && location.hash ? path.replace(/\/$/, '') + location.hash.replace(/#\/?/, '/') : path)
  }

  function send(name, props) {
    try {
      if (localStorage.waypost_ignore) return
    } catch (e) {}
    var kept = {}
    for (var key in props) if (/str|num|bool/.test(typeof props[key])) kept[key] = props[key]
    var body = JSON.stringify({
      site_key: setting('site-key'),
      url: address() + location.search,
      referrer: referrer,
      name: name,
      props: kept
    })
    // A string needs no preflight.
    if (!(navigator.sendBeacon && navigator.sendBeacon(endpoint, body))) {
      fetch(endpoint, { method: 'POST', body: body, keepalive: true, credentials: 'omit' }).catch(function () {})
    }
  }

  function view(again) {
    var next = address()
    if (next === page && again !== true) return
    if (page) referrer = page
    page = next
    send()
  }

  ;['pushState', 'replaceState'].forEach(function (method) {
    var original = history[method]
    history[method] = function () {
      var result = original.apply(this, arguments)
      view()
      return result
    }
  })
  window.addEventListener('popstate', view)
  window.addEventListener('pageshow', function (event) {
    if (event.persisted) view(true)
  })

  window.waypost = {
    track: function (name, props) {
      send(String(name), props)
    }
  }

  ;['click', 'auxclick'].forEach(function (type) {
    document.addEventListener(type, function (event) {
      var link = event.target.closest('a[href]')
      if (!link || event.button > 1) return
      var name = /\.(7z|csv|dmg|docx?|epub|exe|gz|mp[34]|msi|pdf|pptx?|rar|xlsx?|zip)$/i.test(link.pathname) ? 'download' : /^http/.test(link.href) && link.host !== location.host && 'outbound'
      if (name && auto.indexOf(name) >= 0) send(name, { url: link.href.split(/[?#]/)[0] })
    })
  })

  // A prerendered page may never be shown.
  if (document.prerendering) document.addEventListener('prerenderingchange', start)
  else start()

  function start() {
    view()
    if (/404/.test(auto) && performance.getEntriesByType('navigation')[0].responseStatus === 404) send('404', { path: location.pathname })
    // Calls from before: waypost = {q: [[name, props], ...]}
    ;((earlier && earlier.q) || []).forEach(function (call) {
      window.waypost.track(call[0], call[1])
    })
  }
})(window, document, location, history, document.currentScript)
