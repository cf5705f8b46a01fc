package account

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"github.com/waypost/waypost/internal/fairqueue"
)

// PasswordCost is the work of one argon2id hash (RFC 9106 section 3.1).
type PasswordCost struct {
	MemoryKiB uint32
	Passes    uint32
	Lanes     uint8
}

// DefaultPasswordCost is OWASP's first recommendation that fits a small machine:
// 19 MiB, two passes, one lane.
var DefaultPasswordCost = PasswordCost{MemoryKiB: 19 * 1024, Passes: 2, Lanes: 1}

// Limits of what a stored hash may ask for, so that a bad row can't exhaust the
// process.
const (
	maxMemoryKiB = 1 << 20
	maxPasses    = 32
	maxLanes     = 16

	saltLength = 16
	keyLength  = 32
	// waitingPerHash sign-ins may wait for each hash under way; of more, the
	// greediest are refused. They are many more than are answered in maxHashWait: who
	// waits costs little, and who is refused at once comes back at once.
	waitingPerHash = 96
	// maxHashWait is the longest that a sign-in waits for its hash.
	maxHashWait = 2 * time.Second
)

var errPHC = errors.New("account: a stored password hash is not an argon2id PHC string")

func (c PasswordCost) validate() error {
	if c.Lanes < 1 || c.Lanes > maxLanes || c.Passes < 1 || c.Passes > maxPasses ||
		c.MemoryKiB < 8*uint32(c.Lanes) || c.MemoryKiB > maxMemoryKiB {
		return errors.New("account: PasswordCost is outside of argon2id's bounds or ours")
	}
	return nil
}

// hasher computes a bounded number of hashes at once and lets a bounded number of
// callers wait, so that a flood of sign-ins can't take the memory. It shares the
// processor among those to whom hashes are charged, so that a flood of one account
// or network waits for everybody else.
type hasher struct {
	cost   PasswordCost
	random io.Reader
	places places
	idKey  func(password, salt []byte, passes, memoryKiB uint32, lanes uint8, length uint32) []byte
	// decoy is verified against where there is no account; nothing matches it.
	decoy string
}

// places is a queue in front of the hashes. Enter returns what gives a place back,
// or fairqueue.ErrBusy.
type places interface {
	Enter(ctx context.Context, payers ...string) (func(), error)
}

func newHasher(cost PasswordCost, concurrent int, random io.Reader) (*hasher, error) {
	noise := make([]byte, saltLength+keyLength)
	if _, err := io.ReadFull(random, noise); err != nil {
		return nil, fmt.Errorf("account: random: %w", err)
	}
	places, err := fairqueue.New(fairqueue.Options{Places: concurrent, MaxWaiting: concurrent * waitingPerHash, MaxWait: maxHashWait})
	if err != nil {
		return nil, err
	}
	return &hasher{
		cost: cost, random: random, places: places, idKey: argon2.IDKey,
		decoy: phc{cost: cost, salt: noise[:saltLength], key: noise[saltLength:]}.String(),
	}, nil
}

// place is the right to compute hashes until leave is called.
type place struct {
	*hasher
	leave func()
}

// enter waits for a place that is charged to payers. It returns ErrBusy.
func (h *hasher) enter(ctx context.Context, payers []string) (place, error) {
	leave, err := h.places.Enter(ctx, payers...)
	if errors.Is(err, fairqueue.ErrBusy) {
		err = ErrBusy
	}
	return place{h, leave}, err
}

// hash returns a PHC string with a fresh salt, charged to payers. It returns
// ErrBusy.
func (h *hasher) hash(ctx context.Context, password string, payers []string) (string, error) {
	salt := make([]byte, saltLength)
	if _, err := io.ReadFull(h.random, salt); err != nil {
		return "", fmt.Errorf("account: salt: %w", err)
	}
	p, err := h.enter(ctx, payers)
	if err != nil {
		return "", err
	}
	defer p.leave()
	return phc{cost: h.cost, salt: salt, key: p.derive(password, h.cost, salt, keyLength)}.String(), nil
}

// verify is place.verify, charged to payers. It returns ErrBusy.
func (h *hasher) verify(ctx context.Context, password, stored string, payers []string) (bool, error) {
	p, err := h.enter(ctx, payers)
	if err != nil {
		return false, err
	}
	defer p.leave()
	return p.verify(password, stored)
}

// verify reports whether password made stored, with the parameters stored in it.
func (p place) verify(password, stored string) (bool, error) {
	h, err := parsePHC(stored)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(p.derive(password, h.cost, h.salt, len(h.key)), h.key) == 1, nil
}

func (p place) derive(password string, c PasswordCost, salt []byte, length int) []byte {
	// NFC, so that a password typed on another keyboard is the same (RFC 8265 section 4.2.2).
	normal := norm.NFC.AppendString(nil, password)
	return p.idKey(normal, salt, c.Passes, c.MemoryKiB, c.Lanes, uint32(length))
}

// phc is a hash in the PHC string format:
// $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<key>, base64 without padding.
type phc struct {
	cost PasswordCost
	salt []byte
	key  []byte
}

func (p phc) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version,
		p.cost.MemoryKiB, p.cost.Passes, p.cost.Lanes, b64.EncodeToString(p.salt), b64.EncodeToString(p.key))
}

func parsePHC(s string) (phc, error) {
	f := strings.Split(s, "$")
	if len(f) != 6 || f[0] != "" || f[1] != "argon2id" || f[2] != "v="+strconv.Itoa(argon2.Version) {
		return phc{}, errPHC
	}
	cost, err := parseCost(f[3])
	if err != nil {
		return phc{}, err
	}
	b64 := base64.RawStdEncoding.Strict()
	salt, saltErr := b64.DecodeString(f[4])
	key, keyErr := b64.DecodeString(f[5])
	if saltErr != nil || keyErr != nil || len(salt) < 8 || len(salt) > 64 || len(key) < 16 || len(key) > 64 {
		return phc{}, errPHC
	}
	return phc{cost: cost, salt: salt, key: key}, nil
}

func parseCost(s string) (PasswordCost, error) {
	f := strings.Split(s, ",")
	if len(f) != 3 {
		return PasswordCost{}, errPHC
	}
	var n [3]uint64
	for i, name := range [3]string{"m=", "t=", "p="} {
		digits, found := strings.CutPrefix(f[i], name)
		v, err := strconv.ParseUint(digits, 10, 32)
		if !found || err != nil || strconv.FormatUint(v, 10) != digits || i == 2 && v > maxLanes {
			return PasswordCost{}, errPHC
		}
		n[i] = v
	}
	c := PasswordCost{MemoryKiB: uint32(n[0]), Passes: uint32(n[1]), Lanes: uint8(n[2])}
	if c.validate() != nil {
		return PasswordCost{}, errPHC
	}
	return c, nil
}
