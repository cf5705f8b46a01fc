// Counts page views of this site, and what waypost.track(name, props) reports,
// without cookies or storage.
//
//	<script defer src="https://waypost.example/stats.js" data-site-key="wps_..."></script>
(function (window, document, location, history, script) {
  var endpoint = script.src.replace(/\/stats\.js.*$/, '/api/collect')
  var earlier = window.waypost
  var referrer = document.referrer
  var page

  function send(name, props) {
    var body = JSON.stringify({
      site_key: script.getAttribute('data-site-key'),
      url: location.href,
      referrer: referrer,
      name: name,
      props: props
    })
    // A string is sent as text/plain, for which browsers ask no one first.
    if (!(navigator.sendBeacon && navigator.sendBeacon(endpoint, body))) {
      fetch(endpoint, { method: 'POST', body: body, keepalive: true, credentials: 'omit' }).catch(function () {})
    }
  }

  // A page is its address without the fragment.
  function view() {
    var next = location.href.split('#')[0]
    if (next === page) return
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

  window.waypost = {
    track: function (name, props) {
      send(String(name), props)
    }
  }

  // A page that is being prepared in advance may never be shown.
  if (document.prerendering) document.addEventListener('prerenderingchange', start)
  else start()

  function start() {
    view()
    // Calls from before the script was there: waypost = {q: [[name, props], ...]}
    ;((earlier && earlier.q) || []).forEach(function (call) {
      window.waypost.track(call[0], call[1])
    })
  }
})(window, document, location, history, document.currentScript)
