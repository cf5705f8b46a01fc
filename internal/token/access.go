package token

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jws"
	"github.com/lestrrat-go/jwx/v2/jwt"

	"github.com/waypost/waypost/internal/identity"
)

const (
	algorithm  = jwa.ES256
	accessType = "at+jwt"

	claimSession = "sid"
	claimRole    = "role"

	// maxLength is far over any token that this service issues.
	maxLength = 4096
	// leeway forgives instances whose clocks differ. It holds for iat and nbf
	// alone: exp is exact.
	leeway = 5 * time.Second
)

// Claims are what an access token says of its bearer.
type Claims struct {
	UserID    int64
	SessionID uuid.UUID
	// Role is the role at the time of issue, for clients; the account decides.
	Role identity.Role
}

// IssueAccess signs an access token that is good for AccessTTL from now.
func (s *Service) IssueAccess(c Claims) (string, error) {
	b, err := s.builder(c.UserID, AccessTTL)
	if err != nil {
		return "", err
	}
	b.Claim(claimSession, c.SessionID.String()).Claim(claimRole, string(c.Role))
	return s.build(b, accessType)
}

// builder starts a token about a user with the claims that every one of ours has.
func (s *Service) builder(userID int64, ttl time.Duration) (*jwt.Builder, error) {
	id := make([]byte, 16)
	if _, err := io.ReadFull(s.o.Random, id); err != nil {
		return nil, fmt.Errorf("token: id: %w", err)
	}
	now := s.o.Now()
	return jwt.NewBuilder().
		Issuer(s.o.Issuer).
		Audience([]string{s.o.Issuer}).
		Subject(strconv.FormatInt(userID, 10)).
		JwtID(base64.RawURLEncoding.EncodeToString(id)).
		IssuedAt(now).NotBefore(now).Expiration(now.Add(ttl)), nil
}

func (s *Service) build(b *jwt.Builder, typ string) (string, error) {
	t, err := b.Build()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	payload, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return s.sign(payload, typ)
}

func (s *Service) sign(payload []byte, typ string) (string, error) {
	key := s.keys.Load().signer(s.o.Now())
	header := jws.NewHeaders()
	if err := errors.Join(header.Set(jws.TypeKey, typ), header.Set(jws.KeyIDKey, key.kid)); err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	signed, err := jws.Sign(payload, jws.WithKey(algorithm, key.private, jws.WithProtectedHeaders(header)))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return string(signed), nil
}

// VerifyAccess returns the claims of an access token that this service issued
// for itself and that is good now. The key is chosen by kid from this service's
// own, whatever keys or addresses of keys the header carries (RFC 8725 section
// 3.10). It returns ErrExpired or ErrInvalid.
func (s *Service) VerifyAccess(ctx context.Context, raw string) (Claims, error) {
	payload, err := s.verifySignature(ctx, raw, accessType)
	if err != nil {
		return Claims{}, ErrInvalid.Because(err)
	}
	t := jwt.New()
	if err := json.Unmarshal(payload, t); err != nil {
		return Claims{}, ErrInvalid.Because(err)
	}
	return s.readClaims(t)
}

func (s *Service) verifySignature(ctx context.Context, raw, typ string) ([]byte, error) {
	if len(raw) > maxLength {
		return nil, errors.New("over the length limit")
	}
	if seen, ok := s.seen.find(raw); ok && seen.typ == typ && s.verifier(ctx, seen.keyID) != nil {
		return seen.payload, nil
	}
	if !canonical(raw) {
		return nil, errors.New("not a compact JWS")
	}
	message, err := jws.Parse([]byte(raw), jws.WithCompact())
	if err != nil {
		return nil, err
	}
	if len(message.Signatures()) != 1 {
		return nil, errors.New("not one signature")
	}
	header := message.Signatures()[0].ProtectedHeaders()
	switch {
	case header.Algorithm() != algorithm:
		return nil, errors.New("another algorithm")
	case header.Type() != typ:
		return nil, errors.New("another type of token")
	case len(header.Critical()) > 0:
		return nil, errors.New("critical extensions that are not understood")
	}
	public := s.verifier(ctx, header.KeyID())
	if public == nil {
		return nil, errors.New("unknown key")
	}
	payload, err := jws.Verify([]byte(raw), jws.WithKey(algorithm, public), jws.WithCompact())
	if err == nil {
		s.seen.add(raw, signed{typ, header.KeyID(), payload})
	}
	return payload, err
}

// canonical says that raw is three segments of base64url in their only spelling,
// so that one token is one text: decoders pass over line breaks and spare bits.
func canonical(raw string) bool {
	segments := strings.Split(raw, ".")
	for _, segment := range segments {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(segment); err != nil {
			return false
		}
	}
	return len(segments) == 3 && !strings.ContainsAny(raw, "\r\n")
}

func (s *Service) readClaims(t jwt.Token) (Claims, error) {
	userID, err := s.validate(t)
	if err != nil {
		return Claims{}, err
	}
	sid, err := uuid.Parse(text(t, claimSession))
	if err != nil {
		return Claims{}, ErrInvalid.Because(err)
	}
	role := identity.Role(text(t, claimRole))
	if !role.Valid() {
		return Claims{}, ErrInvalid
	}
	return Claims{UserID: userID, SessionID: sid, Role: role}, nil
}

// validate checks the claims that every token of ours has and returns the user's
// id. It returns ErrExpired or ErrInvalid.
func (s *Service) validate(t jwt.Token) (int64, error) {
	now := s.o.Now()
	err := jwt.Validate(t,
		jwt.WithClock(jwt.ClockFunc(func() time.Time { return now })),
		jwt.WithAcceptableSkew(leeway),
		jwt.WithRequiredClaim(jwt.ExpirationKey),
		jwt.WithRequiredClaim(jwt.IssuedAtKey),
		jwt.WithRequiredClaim(jwt.NotBeforeKey),
		jwt.WithRequiredClaim(jwt.JwtIDKey),
		jwt.WithIssuer(s.o.Issuer),
		jwt.WithAudience(s.o.Issuer),
	)
	switch {
	case errors.Is(err, jwt.ErrTokenExpired()):
		return 0, ErrExpired
	case err != nil:
		return 0, ErrInvalid.Because(err)
	case !now.Before(t.Expiration()):
		return 0, ErrExpired
	}
	userID, err := strconv.ParseInt(t.Subject(), 10, 64)
	if err != nil || userID <= 0 {
		return 0, ErrInvalid
	}
	return userID, nil
}

func text(t jwt.Token, claim string) string {
	v, _ := t.Get(claim)
	s, _ := v.(string)
	return s
}
