package session

import (
	"encoding/json"
	"fmt"
)

// Origin is what a session has from its first event.
type Origin struct {
	Source                                                 string
	UTMSource, UTMMedium, UTMCampaign, UTMTerm, UTMContent string
	Country, Device, Browser, OS                           string
}

// property is one of an Origin.
type property struct {
	column string // of sessions
	short  string // its name in events.origin, where it isn't empty
	of     func(*Origin) *string
}

// properties are all of them. What is stored of a session, what is packed with an event
// and how both are read is derived from them: another one is a field and a line here, and
// a column with the default ”.
var properties = []property{
	{"source", "s", func(o *Origin) *string { return &o.Source }},
	{"utm_source", "us", func(o *Origin) *string { return &o.UTMSource }},
	{"utm_medium", "um", func(o *Origin) *string { return &o.UTMMedium }},
	{"utm_campaign", "uc", func(o *Origin) *string { return &o.UTMCampaign }},
	{"utm_term", "ut", func(o *Origin) *string { return &o.UTMTerm }},
	{"utm_content", "un", func(o *Origin) *string { return &o.UTMContent }},
	{"country", "c", func(o *Origin) *string { return &o.Country }},
	{"device", "d", func(o *Origin) *string { return &o.Device }},
	{"browser", "b", func(o *Origin) *string { return &o.Browser }},
	{"os", "o", func(o *Origin) *string { return &o.OS }},
}

// pack is o as events.origin has it.
func (o Origin) pack() []byte {
	packed := make(map[string]string, len(properties))
	for _, p := range properties {
		if text := *p.of(&o); text != "" {
			packed[p.short] = text
		}
	}
	b, _ := json.Marshal(packed)
	return b // strings can always be marshalled
}

// UnpackOrigin reads events.origin.
func UnpackOrigin(b []byte) (Origin, error) {
	var o Origin
	var packed map[string]string
	if err := json.Unmarshal(b, &packed); err != nil {
		return o, fmt.Errorf("session: stored origin: %w", err)
	}
	for _, p := range properties {
		*p.of(&o) = packed[p.short]
	}
	return o, nil
}
