package main

import "github.com/waypost/waypost/internal/app"

// extensions are what this build adds to Waypost: a webhook provider, a handler of
// its events, texts in the API's description, operations, work in the background.
// It is the one file for the owner of a fork to change; docs/extending.md shows how.
func extensions() app.Extensions {
	return app.Extensions{}
}
