package account

import (
	"context"
	"sync"

	"github.com/waypost/waypost/internal/fairqueue"
)

// BlockHashing lets every password hash begin and none end until release is called.
// Each that begins is told to begun. It is called before the service is used.
func (s *Service) BlockHashing() (begun <-chan struct{}, release func()) {
	begins, ends := make(chan struct{}, 1000), make(chan struct{})
	idKey := s.core.hasher.idKey
	s.core.hasher.idKey = func(password, salt []byte, passes, memoryKiB uint32, lanes uint8, length uint32) []byte {
		begins <- struct{}{}
		<-ends
		return idKey(password, salt, passes, memoryKiB, lanes, length)
	}
	return begins, sync.OnceFunc(func() { close(ends) })
}

// RecordPayers returns what tells to whom each hash was charged since it was last
// asked. It is called before the service is used.
func (s *Service) RecordPayers() func() [][]string {
	r := &recordingPlaces{places: s.core.hasher.places}
	s.core.hasher.places = r
	return func() [][]string {
		list := r.list
		r.list = nil
		return list
	}
}

type recordingPlaces struct {
	places
	list [][]string
}

func (r *recordingPlaces) Enter(ctx context.Context, payers ...string) (func(), error) {
	r.list = append(r.list, payers)
	return r.places.Enter(ctx, payers...)
}

// RefuseHashes lets no more passwords be hashed, as if the queue were full. It is
// called while the service is not used.
func (s *Service) RefuseHashes() { s.core.hasher.places = noPlaces{} }

type noPlaces struct{}

func (noPlaces) Enter(context.Context, ...string) (func(), error) { return nil, fairqueue.ErrBusy }

// Payers are those of a hash for an e-mail address, asked for from ctx.
var Payers = payersOf

// ForPassword is the purpose of links that set a password.
const ForPassword = forPassword

// ParseNetworks and AdmitsFrom read and apply the networks of an API token.
var (
	ParseNetworks = parseNetworks
	AdmitsFrom    = admitsFrom
)

// ForEmail is the purpose of links that verify an address.
const ForEmail = forEmail
