-- name: FindWrappingKeyID :one
-- Which secret key the signing key is encrypted under.
select wrapping_key_id from signing_keys where retires_at is null;
