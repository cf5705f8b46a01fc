package demo

import (
	"context"

	"github.com/waypost/waypost/db/page"
	"github.com/waypost/waypost/internal/content"
	"github.com/waypost/waypost/internal/identity"
)

// Content writes a few posts and blogs by the account with that e-mail address, unless
// there is a post or a blog already.
func Content(ctx context.Context, s ServicesUsed, email string) error {
	author, err := s.Accounts.FindByEmail(ctx, email)
	if err != nil {
		return err
	}
	// An EDITOR sees drafts, which would be written twice otherwise.
	reader := identity.NewContext(ctx, identity.Account(author.ID, identity.Editor, ""))
	posts, err := s.Content.ListPosts(reader, content.PostFilter{Request: page.Request{Limit: 1}})
	if err != nil {
		return err
	}
	blogs, err := s.Content.ListBlogs(reader, content.BlogFilter{Request: page.Request{Limit: 1}})
	if err != nil || len(posts.Rows)+len(blogs.Rows) > 0 {
		return err
	}
	ctx = identity.NewContext(ctx, identity.System("demo"))
	for _, n := range demoPosts {
		n.AuthorID = author.ID
		if _, err := s.Content.CreatePost(ctx, n); err != nil {
			return err
		}
	}
	for _, n := range demoBlogs {
		n.AuthorID = author.ID
		if _, err := s.Content.CreateBlog(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

var demoPosts = []content.NewPost{
	{Title: "Notes on the analytical engine", Tags: []string{"engine", "notes"},
		Body: "It weaves algebraic patterns just as the Jacquard loom weaves flowers and leaves.\n\nNote G has the whole plan for the Bernoulli numbers, cards and all."},
	{Title: "Maintenance on Sunday", Tags: []string{"operations"},
		Body: "The database moves to a larger disk between 06:00 and 06:20 UTC. Deliveries are taken all the while; pages may be slow."},
	{Title: "What we read this week", Tags: []string{"notes", "links"},
		Body: "A history of the semaphore telegraph, a paper on group commit, and a menu with crème brûlée."},
}

var demoBlogs = []content.NewBlog{
	{Title: "Never lose a webhook", Excerpt: "What has to be on the disk before anybody says 200.", Published: true,
		Content: "A provider that gets a 200 forgets the event. So the answer has to wait until the event can be found again after a power cut.\n\n" +
			"Writing each one with a commit of its own is slow, and answering before the commit is a lie. We gather those that come within the same few " +
			"milliseconds, commit them together, and answer all of them afterwards: each waits a little longer, and the disk is asked a hundred times less often.\n\n" +
			"What comes twice is stored once. Providers repeat what they are unsure of, and they are right to do so."},
	{Title: "Counting without cookies", Excerpt: "How a site knows its visitors of a day, and nobody for longer.", Published: true,
		Content: "A visitor is a number that is made from an address, a browser and a secret of the day. At midnight the secret is thrown away.\n\n" +
			"So the count of a day is right, and nobody can say whether somebody of Monday came back on Tuesday. That is not a flaw to be mended. It is what was wanted."},
	{Title: "A year of small releases", Excerpt: "A draft, which only editors see.",
		Content: "To be written: what broke, what we changed about it, and what we would not do again."},
}
