package pages

import (
	"bytes"
	"encoding/json"
	"html/template"
	"iter"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// functions are what templates call.
func (p *Pages) functions() template.FuncMap {
	return template.FuncMap{
		"style": func() template.CSS { return template.CSS(p.style) },
		"asset": func(name string) string {
			for _, a := range p.loaded {
				if a.name == name {
					return a.address
				}
			}
			panic("pages: there is no asset " + name)
		},
		"kind":    kindOf,
		"amount":  func(n int64) string { return grouped(n) },
		"bytes":   func(n Size) string { return inBytes(n) },
		"ago":     ago,
		"exact":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") },
		"instant": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"at":      func(now time.Time, value any) cell { return cell{now, value} },
	}
}

// cell is a table's cell with the time that it is shown.
type cell struct {
	Now   time.Time
	Value any
}

// kindOf names the template part that shows a cell.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case Link:
		return "link"
	case Badge:
		return "badge"
	case Code:
		if v == "" {
			return "nothing"
		}
		return "code"
	case Named:
		return "named"
	case Picture:
		return "picture"
	case Spark:
		return "spark"
	case Size:
		return "size"
	case time.Time:
		if v.IsZero() {
			return "nothing"
		}
		return "time"
	case *time.Time:
		if v == nil {
			return "nothing"
		}
		return "time"
	case int64:
		return "number"
	case string:
		if v == "" {
			return "nothing"
		}
		return "text"
	case []any:
		return "several"
	}
	return "text"
}

// Fact is one property of a thing, with a cell's value.
type Fact struct {
	Label string
	Value any
}

// indented is JSON as people read it; what is none stays as it is.
func indented(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// query is one parameter of an address.
func query(name, value string) string { return url.Values{name: {value}}.Encode() }

// took is a duration as people read it, "" for none.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Second:
		return strconv.FormatFloat(max(.1, math.Round(float64(d)/float64(time.Millisecond)*10)/10), 'f', -1, 64) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'g', 3, 64) + " s"
	}
	return d.Round(time.Second).String()
}

func wait(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return took(*d)
}

// short is the beginning of s, of n characters at most.
func short(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "\u2026"
}

// sorted yields a map's members by name.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}
