-- name: IsHome :one
-- Whether the account is at home in that network since.
select exists (
    select 1 from sign_in_networks where user_id = @user_id and network = @network and seen_at > @since
)::bool;

-- name: SeeNetwork :execrows
-- Remembers where an account is at home: one row for a network that is new, or was
-- not written down of late.
insert into sign_in_networks as n (user_id, network, seen_at) values (@user_id, @network, @now)
on conflict (user_id, network) do update set seen_at = excluded.seen_at where n.seen_at < @before;

-- name: DeleteSurplusNetworks :exec
-- Forgets all of an account's networks but for those seen last.
delete from sign_in_networks n where n.user_id = @user_id and n.network in (
    select o.network from sign_in_networks o where o.user_id = @user_id
    order by o.seen_at desc, o.network offset sqlc.arg('kept')::int
);

-- name: DeleteStaleNetworks :execrows
delete from sign_in_networks where seen_at < $1;
