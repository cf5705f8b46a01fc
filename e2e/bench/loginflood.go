package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waypost/waypost/internal/account"
)

const (
	floodConns    = 150
	floodPassword = "correct horse battery staple"
	// honestPeople sign in beside the flood, in turns, each from a network of their own.
	honestPeople = 20
	honestEvery  = 400 * time.Millisecond
	// honestLimit is what the slowest of a hundred of them may take.
	honestLimit = time.Second
	// floodGrowth is the most that the median memory of the last third of a flood may be
	// of the first's.
	floodGrowth = 1.1
)

// flood is 150 connections that sign in rightly, again and again.
type flood struct {
	name string
	of   func(i int) (email, address string)
}

func flooder(i int) string { return fmt.Sprintf("flooder%d@example.com", i) }

var floods = []flood{
	{"one account from one address", func(int) (string, string) { return flooder(0), "203.0.113.1" }},
	{"150 accounts from one address", func(i int) (string, string) { return flooder(i), "203.0.113.2" }},
	{"one account from 150 addresses", func(i int) (string, string) { return flooder(0), fmt.Sprintf("192.0.2.%d", 1+i) }},
	{"150 accounts from as many networks of a /48", func(i int) (string, string) { return flooder(i), fmt.Sprintf("2001:db8:1:%x::1", 1+i) }},
}

// loginFloodFigure lets people sign in from elsewhere beside each flood, and beside
// none.
func loginFloodFigure(ctx context.Context, w *world) error {
	if err := w.addPeople(ctx); err != nil {
		return err
	}
	err := w.start(ctx, func(address string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, w.binary(), "serve", "--addr", address, "--url", w.url)
		cmd.Env = []string{"WAYPOST_TRUSTED_PROXIES=127.0.0.1"}
		return cmd
	})
	if err != nil {
		return err
	}
	alone, _, err := w.honest(ctx, w.flood/4)
	if err != nil {
		return err
	}
	fmt.Printf("   no flood: %s\n", alone)
	for _, f := range floods {
		if err := w.floodWith(ctx, f); err != nil {
			return err
		}
	}
	var sessions int
	if err := w.owner.QueryRow(ctx, `select coalesce(max(n), 0) from (select count(*) as n from auth_sessions where revoked_at is null group by user_id) s`).Scan(&sessions); err != nil {
		return err
	}
	fmt.Printf("   most live sessions of an account: %d (<= %d) %s\n", sessions, account.MaxSessions, verdict(sessions <= account.MaxSessions))
	return nil
}

// addPeople makes the accounts, all with one password, whose hash is computed once.
func (w *world) addPeople(ctx context.Context) error {
	accounts, err := account.New(account.Options{DB: w.db})
	if err != nil {
		return err
	}
	if _, err := accounts.Create(ctx, account.NewUser{FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", Password: floodPassword}); err != nil {
		return err
	}
	_, err = w.owner.Exec(ctx, `insert into users (first_name, last_name, email, email_key, password_hash, created_at, updated_at)
		select first_name, last_name, kind || i || '@example.com', kind || i || '@example.com', password_hash, created_at, updated_at
		from users, (select 'flooder' as kind, generate_series(0, $1 - 1) as i union all select 'honest', generate_series(0, $2 - 1)) p`, floodConns, honestPeople)
	return err
}

// signedIn is what came of sign-ins.
type signedIn struct {
	times   []time.Duration // of those that were answered 200
	refused int
}

func (s signedIn) p99() time.Duration {
	if len(s.times) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s.times))[len(s.times)*99/100]
}

func (s signedIn) String() string {
	if len(s.times) == 0 {
		return fmt.Sprintf("none of %d honest sign-ins succeeded", s.refused)
	}
	return fmt.Sprintf("%d honest sign-ins, p50 %v, p99 %v, %d refused", len(s.times)+s.refused, round(median(s.times)), round(s.p99()), s.refused)
}

// honest lets people sign in for a while, whether those before were answered or not,
// and returns what the service had in memory meanwhile.
func (w *world) honest(ctx context.Context, d time.Duration) (signedIn, []int64, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: honestPeople}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var came signedIn
	var failed error
	var memory []int64
	var all sync.WaitGroup
	due := time.NewTicker(honestEvery)
	defer due.Stop()
	for i, until := 0, time.Now().Add(d); time.Now().Before(until); i++ {
		<-due.C
		memory = append(memory, residentMemory(w.service))
		all.Go(func() {
			began := time.Now()
			status, err := w.login(ctx, client, fmt.Sprintf("honest%d@example.com", i%honestPeople), fmt.Sprintf("198.51.100.%d", 1+i%honestPeople))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = errors.Join(failed, err)
			case status == http.StatusOK:
				came.times = append(came.times, time.Since(began))
			default:
				came.refused++
			}
		})
	}
	all.Wait()
	return came, memory, failed
}

// floodWith floods, and prints what became of the flood and of people beside it.
func (w *world) floodWith(ctx context.Context, f flood) error {
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: floodConns}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	became := map[int]int{}
	var all sync.WaitGroup
	for i := range floodConns {
		email, address := f.of(i)
		all.Go(func() {
			for flooding.Err() == nil {
				status, err := w.login(flooding, client, email, address)
				if err != nil && flooding.Err() != nil {
					return
				}
				mu.Lock()
				became[status]++ // 0 for none
				mu.Unlock()
			}
		})
	}
	came, memory, err := w.honest(ctx, w.flood)
	stop()
	all.Wait()
	if err != nil {
		return err
	}
	third := len(memory) / 3
	first, last := median(memory[:third]), median(memory[len(memory)-third:])
	growth := float64(last) / float64(max(first, 1))
	fmt.Printf("   %s: %s\n", f.name, came)
	fmt.Printf("      p99 <= %v %s; none refused %s; memory: median %d MiB in the first third, %d MiB in the last, %.2f (<= %.1f) %s; never more than %d MiB; the flood by status: %v\n",
		honestLimit, verdict(came.p99() <= honestLimit), verdict(came.refused == 0), first>>20, last>>20, growth, floodGrowth, verdict(growth <= floodGrowth), slices.Max(memory)>>20, became)
	return nil
}

func (w *world) login(ctx context.Context, client *http.Client, email, address string) (int, error) {
	body, err := json.Marshal(map[string]string{"email": email, "password": floodPassword})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/api/auth/login", strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", address)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}
