package aigateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/waypost/waypost/internal/aigateway/openai"
	"github.com/waypost/waypost/internal/aigateway/upstream"
	"github.com/waypost/waypost/internal/identity"
)

// Client is who asked. What its methods are given is valid until they return; their
// errors mean that the client is gone.
type Client interface {
	// Allow tells how the caller stands, before the answer begins.
	Allow(Allowance)
	// Answer sends a whole answer, which is JSON.
	Answer(body []byte) error
	// Begin begins a stream.
	Begin() error
	// Piece sends a chunk of a stream, at once if flush is set.
	Piece(data []byte, flush bool) error
}

// ErrGone says that the client went away.
var ErrGone = errors.New("aigateway: the client is gone")

// Chat answers a request for a chat completion of the principal of ctx, which must end
// when the client goes away. What it returns after Begin is to end the stream. It returns
// the faults of this package, fairqueue.ErrBusy, and ErrGone.
func (s *Service) Chat(ctx context.Context, body []byte, client Client) error {
	r, err := openai.ParseChat(body)
	if err != nil {
		return s.unserved(ctx, client, requestFault(err))
	}
	return s.serve(ctx, chat, r, client)
}

// Embeddings answers a request for embeddings, as Chat does.
func (s *Service) Embeddings(ctx context.Context, body []byte, client Client) error {
	r, err := openai.ParseEmbeddings(body)
	if err != nil {
		return s.unserved(ctx, client, requestFault(err))
	}
	return s.serve(ctx, embeddings, r, client)
}

// unserved ends a call that reserved nothing.
func (s *Service) unserved(ctx context.Context, client Client, err error) error {
	a, unknown := s.Allowance(ctx, identity.FromContext(ctx))
	if unknown == nil {
		client.Allow(a)
	}
	return err
}

// requestFault tells the client which member is wrong.
func requestFault(err error) error {
	if r, ok := errors.AsType[*openai.RequestError](err); ok {
		f := ErrRequest.With(map[string]string{r.Param: r.Message})
		f.Message = r.Message
		return f
	}
	return err
}

// candidate is a target with the request for it.
type candidate struct {
	target   Target
	upstream Upstream
	key      string
	request  upstream.Request
	breaker  *upstream.Breaker
	worst    Usage
}

// call is one that is on.
type call struct {
	s      *Service
	op     operation
	r      *openai.Request
	client Client
	began  time.Time
	hold   hold
	held   bool
	// Of attempts that were lost after the upstream had the request.
	carried     Usage
	carriedCost Money
	reached     bool
}

func (s *Service) serve(ctx context.Context, op operation, r *openai.Request, client Client) error {
	p := identity.FromContext(ctx)
	model, err := s.model(r.Model, p.Role)
	if err != nil {
		return s.unserved(ctx, client, err)
	}
	list, err := s.candidates(op, r, model, p.Role)
	if err != nil {
		return s.unserved(ctx, client, err)
	}
	leave, err := s.enter()
	if err != nil {
		return s.unserved(ctx, client, err)
	}
	defer leave()
	id, err := uuid.NewV7FromReader(s.o.Random)
	if err != nil {
		return fmt.Errorf("aigateway: %w", err)
	}
	c := &call{s: s, op: op, r: r, client: client, began: s.o.Now(), hold: hold{id: id, principal: p, model: model.Name}}
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	return c.run(ctx, list)
}

// candidates are the targets that role may use and that can do what is asked, in their
// order. Without any it says why the first can't.
func (s *Service) candidates(op operation, r *openai.Request, m Model, role identity.Role) ([]candidate, error) {
	worst := Usage{Input: min(r.Size.Worst(), worstInput)}
	if op == chat {
		worst.Output = m.MaxOutput
		if r.MaxOutput > 0 {
			worst.Output = min(r.MaxOutput, m.MaxOutput)
		}
	}
	var list []candidate
	refusal := error(ErrModelRole)
	for _, t := range m.Targets {
		if !contains(t.Roles, string(role)) {
			continue
		}
		u, _ := s.o.Declared.upstream(t.Upstream)
		key := s.key(u)
		request, err := requestFor(op, r, u, t, worst.Output, key)
		if err != nil {
			if len(list) == 0 && errors.Is(refusal, ErrModelRole) {
				refusal = requestFault(err)
			}
			continue
		}
		request.Timeout = s.o.Declared.Limits.Timeout
		list = append(list, candidate{target: t, upstream: u, key: key, request: request, breaker: s.targets[targetKey{t.Upstream, t.Model}], worst: worst})
	}
	if len(list) == 0 {
		return nil, refusal
	}
	return list, nil
}

// worstInput bounds what a prompt is taken for; no body of the size that is read is worth more text.
const worstInput = 25_000_000

// tries is how often one target is asked.
const tries = 2

// run asks one target after the other until one answers.
func (c *call) run(ctx context.Context, list []candidate) error {
	var last error = ErrUpstream
	for _, target := range list {
		for try := 1; try <= tries; try++ {
			done, ok := target.breaker.Allow()
			if !ok {
				break
			}
			if err := c.prepare(ctx, target); err != nil {
				done(upstream.Neutral)
				return c.giveUp(ctx, err)
			}
			result := c.attempt(ctx, target, done)
			if result.ended {
				return result.err
			}
			last = result.err
			if !result.again || try == tries || !c.pause(ctx, result.wait) {
				break
			}
		}
		if ctx.Err() != nil {
			last = ErrGone
			break
		}
	}
	return c.giveUp(ctx, last)
}

// pause waits before a target is asked again, and reports whether it should be.
func (c *call) pause(ctx context.Context, wait time.Duration) bool {
	if wait > maxPause {
		return false // another may answer sooner
	}
	select {
	case <-time.After(max(wait, c.s.o.Pause)):
		return true
	case <-ctx.Done():
		return false
	}
}

// maxPause is the longest Retry-After that is waited for.
const maxPause = 2 * time.Second

// prepare keeps back what the target costs at worst, beside what lost attempts cost.
func (c *call) prepare(ctx context.Context, t candidate) error {
	h := c.hold
	h.upstream, h.target = t.upstream.Name, t.target.Model
	h.worst = Usage{c.carried.Input + t.worst.Input, c.carried.Output + t.worst.Output}
	h.cost = c.carriedCost + t.target.Price.of(t.worst)
	if c.held {
		if h == c.hold {
			return nil
		}
		err := c.s.resize(ctx, h, t.target.Roles)
		if err == nil {
			c.hold = h
		}
		return err
	}
	h.minute = min(c.r.Size.Likely(), worstInput) + t.worst.Output
	a, err := c.s.reserve(ctx, h)
	c.client.Allow(a)
	if err != nil {
		return err
	}
	c.hold, c.held = h, true
	return c.at(Reserved)
}

// at is where a test may let the process crash: nobody renews the lease from then on.
func (c *call) at(b Boundary) error {
	err := c.s.o.Interrupt(b)
	if err == nil {
		return nil
	}
	c.s.letGo(c.hold.id)
	return fmt.Errorf("%w: %w", errInterrupted, err)
}

// giveUp ends a call that got no answer.
func (c *call) giveUp(ctx context.Context, err error) error {
	if errors.Is(err, errInterrupted) {
		return err
	}
	if !c.held {
		if errors.Is(err, ErrUpstream) { // no target was asked
			return c.s.unserved(ctx, c.client, err)
		}
		return err
	}
	outcome := Failed
	if ctx.Err() != nil {
		outcome, err = Aborted, ErrGone
	}
	c.settle(ctx, settlement{outcome: outcome, reached: c.reached, used: c.carried, cost: c.carriedCost, estimated: c.carried != Usage{}})
	return err
}

// errInterrupted is a test's crash.
var errInterrupted = errors.New("aigateway: interrupted")

// settle books the call. When that takes long, the client doesn't wait.
func (c *call) settle(ctx context.Context, to settlement) {
	done := make(chan struct{})
	detached := identity.NewContext(context.WithoutCancel(ctx), c.hold.principal)
	c.s.work.Go(func() {
		defer close(done)
		c.s.settle(detached, c.hold, to)
	})
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
