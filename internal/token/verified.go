package token

import (
	"crypto/sha256"
	"sync"
)

// verifiedKept is how many tokens of each of two generations are remembered.
const verifiedKept = 2048

// verified remembers whose signatures were right, since clients send the same token with
// each request, and a signature costs more to check than all else of it. What else makes
// a token good, its key, its times, its session, is asked each time. The oldest are
// forgotten first.
type verified struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]signed
}

// signed is what a token of a type says, and the key that signed it.
type signed struct {
	typ, keyID string
	payload    []byte
}

func (v *verified) find(raw string) (signed, bool) {
	name := sha256.Sum256([]byte(raw))
	v.mu.Lock()
	defer v.mu.Unlock()
	if s, ok := v.young[name]; ok {
		return s, true
	}
	s, ok := v.old[name]
	if ok {
		v.keep(name, s)
	}
	return s, ok
}

func (v *verified) add(raw string, s signed) {
	name := sha256.Sum256([]byte(raw))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep(name, s)
}

func (v *verified) keep(name [sha256.Size]byte, s signed) {
	if v.young == nil || len(v.young) >= verifiedKept {
		v.young, v.old = make(map[[sha256.Size]byte]signed), v.young
	}
	v.young[name] = s
}
