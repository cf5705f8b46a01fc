// Command client does what a client team does first: with the Go client that
// oapi-codegen generates of the description into package waypost, it signs in,
// writes a post, finds it again, and reads a site's statistics.
//
//	client URL EMAIL PASSWORD SITE-API-KEY
//
// It prints what it saw as JSON. Credentials that the server refuses, and any
// other answer than the description promises, end it with status 1.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/oapi-codegen/runtime/types"

	"github.com/waypost/waypost/tools/client/waypost"
)

// seen is what the server answered.
type seen struct {
	User      string `json:"user"`
	Post      string `json:"post"`
	Listed    bool   `json:"listed"`
	Pageviews int64  `json:"pageviews"`
	Sessions  int64  `json:"sessions"`
	Refused   string `json:"refused"` // the error code for a wrong password
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: client URL EMAIL PASSWORD SITE-API-KEY")
		os.Exit(2)
	}
	s, err := visit(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func visit(ctx context.Context, url, email, password, apiKey string) (seen, error) {
	c, err := waypost.NewClientWithResponses(url)
	if err != nil {
		return seen{}, err
	}
	var s seen
	wrong, err := c.LoginWithResponse(ctx, waypost.LoginRequest{Email: types.Email(email), Password: "not " + password})
	if err != nil {
		return seen{}, err
	}
	if wrong.JSON401 == nil {
		return seen{}, fmt.Errorf("a wrong password: %s %s", wrong.Status(), wrong.Body)
	}
	s.Refused = wrong.JSON401.Error.Code
	in, err := c.LoginWithResponse(ctx, waypost.LoginRequest{Email: types.Email(email), Password: password})
	if err != nil {
		return seen{}, err
	}
	if in.JSON200 == nil {
		return seen{}, fmt.Errorf("sign-in: %s %s", in.Status(), in.Body)
	}
	tokens, err := in.JSON200.Data.AsTokens()
	if err != nil {
		return seen{}, err
	}
	s.User = string(tokens.User.Email)
	if err := s.write(ctx, c, with("Authorization", "Bearer "+tokens.AccessToken)); err != nil {
		return seen{}, err
	}
	if err := s.count(ctx, c, with("X-Analytics-API-Key", apiKey)); err != nil {
		return seen{}, err
	}
	return s, nil
}

// with presents a credential.
func with(header, value string) waypost.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set(header, value)
		return nil
	}
}

func (s *seen) write(ctx context.Context, c *waypost.ClientWithResponses, signedIn waypost.RequestEditorFn) error {
	key := fmt.Sprintf("generated-%d", time.Now().UnixNano())
	post, err := c.CreatePostWithResponse(ctx, &waypost.CreatePostParams{IdempotencyKey: &key}, waypost.CreatePost{
		Title: "Written by a generated client", Body: "It compiles.", Tags: &[]string{"generated"},
	}, signedIn)
	if err != nil {
		return err
	}
	if post.JSON200 == nil {
		return fmt.Errorf("writing a post: %s %s", post.Status(), post.Body)
	}
	s.Post = post.JSON200.Data.Title
	tag := "generated"
	list, err := c.ListPostsWithResponse(ctx, &waypost.ListPostsParams{Tag: &tag}, signedIn)
	if err != nil {
		return err
	}
	if list.JSON200 == nil {
		return fmt.Errorf("listing posts: %s %s", list.Status(), list.Body)
	}
	for _, p := range list.JSON200.Data {
		s.Listed = s.Listed || *p.Id == *post.JSON200.Data.Id
	}
	return nil
}

func (s *seen) count(ctx context.Context, c *waypost.ClientWithResponses, withKey waypost.RequestEditorFn) error {
	// Days that are over: what a window up to now holds changes while this runs.
	from, to := time.Now().UTC().AddDate(0, 0, -9).Format(time.DateOnly), time.Now().UTC().AddDate(0, 0, -2).Format(time.DateOnly)
	summary, err := c.GetStatsSummaryWithResponse(ctx, &waypost.GetStatsSummaryParams{From: &from, To: &to}, withKey)
	if err != nil {
		return err
	}
	if summary.JSON200 == nil {
		return fmt.Errorf("reading statistics: %s %s", summary.Status(), summary.Body)
	}
	s.Pageviews, s.Sessions = summary.JSON200.Pageviews, summary.JSON200.Sessions
	return nil
}
