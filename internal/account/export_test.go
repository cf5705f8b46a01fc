package account

// BlockHashing keeps every password hash from starting until release is called.
func (s *Service) BlockHashing() (release func()) {
	for range cap(s.hasher.running) {
		s.hasher.running <- struct{}{}
	}
	return func() {
		for range cap(s.hasher.running) {
			<-s.hasher.running
		}
	}
}

// Hashing is the number of callers at a password hash.
func (s *Service) Hashing() int { return len(s.hasher.waiting) }
