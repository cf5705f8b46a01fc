-- What each process measured of itself, minute by minute, for the last 24 hours.

-- +goose Up
-- One row for each minute of each process; a process that was killed lacks its last.
create table telemetry_minutes (
    id       uuid        primary key, -- made with the minute: storing it once more changes nothing
    instance text        not null,    -- the host and the process's number there
    minute   timestamptz not null,    -- when it began, by the process's clock
    requests bytea       not null,    -- requests by route, with a histogram each: internal/telemetry/packed.go
    slow     jsonb       not null,    -- the slowest requests, without addresses and queries
    failed   jsonb,                   -- the first answers of 5xx; null for none
    process  jsonb       not null     -- memory, processors, connections
);
-- Counts are as small as they get.
alter table telemetry_minutes alter column requests set storage external;
create index on telemetry_minutes (minute);
create index on telemetry_minutes (minute) where failed is not null;

insert into audit_excluded (pattern, reason) values
    ('telemetry\_minutes', 'measurements of running instances, deleted after a day');

select show_columns('telemetry_minutes', '{id,instance,minute,requests,slow,failed,process}');

grant select, insert, delete on telemetry_minutes to waypost_app;

-- +goose Down
drop table telemetry_minutes;
delete from audit_excluded where pattern = 'telemetry\_minutes';
delete from visible_columns where table_name = 'telemetry_minutes';
