package webhook

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// targets are those of a handler of the file.
func (h handlerYAML) targets() ([]ForwardTarget, error) {
	if len(h.Forward) == 0 {
		return nil, errors.New("forward: no url")
	}
	var all []ForwardTarget
	seen := map[string]bool{}
	for _, f := range h.Forward {
		t, err := f.target(h.Provider, h.Event)
		if err == nil && len(h.Forward) > 1 && f.Name == "" {
			err = errors.New("forward: each of several targets has a name")
		}
		if err == nil && seen[f.Name] {
			err = errors.New("forward: two targets have this name")
		}
		seen[f.Name] = true
		if err != nil {
			if len(h.Forward) > 1 {
				err = fmt.Errorf("target %.60q: %w", f.Name, err)
			}
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (f forwardYAML) target(provider, event string) (ForwardTarget, error) {
	t := ForwardTarget{
		Provider: provider, EventType: event, Name: f.Name, URL: f.URL, SecretEnv: f.SecretEnv, Attempts: f.Attempts,
		Concurrency: f.Concurrency, Headers: f.Headers, PassHeaders: f.PassHeaders,
	}
	var err error
	if f.Timeout != "" {
		if t.Timeout, err = time.ParseDuration(f.Timeout); err != nil || t.Timeout <= 0 {
			return t, fmt.Errorf("forward: timeout: write a duration of at most %v, such as 15s or 500ms", maxTargetTimeout)
		}
	}
	if t.Rate, err = parseRate(f.Rate); err != nil {
		return t, err
	}
	return t, t.check()
}

var rate = regexp.MustCompile(`^([0-9]{1,9}) ?/ ?(s|m|h)$`)

// parseRate reads a number of attempts in a second, a minute or an hour; nothing is 0,
// without a limit. It returns attempts a second.
func parseRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	m := rate.FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("forward: rate: write a number of attempts in a second, a minute or an hour: 10/s, 100/m, 1000/h")
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil || n == 0 {
		return 0, errors.New("forward: rate: it is at least 1; to stop a target, pause it")
	}
	return n / map[string]float64{"s": 1, "m": 60, "h": 3600}[m[2]], nil
}
