package account

// Prefixes by which secret scanners, and people, recognise what leaked.
const (
	refreshPrefix  = "wprt_"
	mailPrefix     = "wpml_"
	APITokenPrefix = "wp_"
)

// randomLength is the length in bytes of what newSecret returns.
const randomLength = 43

// newPrefixed returns prefix and 256 random bits as text. Its digest is what is
// stored: a hash without salt or cost does for what can't be guessed.
func (s *core) newPrefixed(prefix string) (string, error) {
	secret, err := s.newSecret()
	return prefix + secret, err
}
