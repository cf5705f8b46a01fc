-- What the page on security shows and nothing else keeps: how sign-ins ended, and what
-- browsers refused on our pages.

-- +goose Up
-- Each instance counts in memory and stores its own sum of an hour, again and again:
-- storing it twice changes nothing, and a flood costs as many writes as a quiet minute.
create table sign_in_counts (
    hour     timestamptz not null, -- its beginning
    instance uuid        not null, -- a process, not an account
    outcome  text        not null check (char_length(outcome) between 1 and 50),
    count    bigint      not null check (count > 0),
    primary key (hour, instance, outcome)
);

-- Reports of the Content Security Policy, without addresses, queries or anything else of
-- who looked at a page. The number of rows is bounded: internal/security/reports.go.
create table csp_reports (
    directive  text        not null check (char_length(directive) between 1 and 50),
    blocked    text        not null check (char_length(blocked) between 1 and 100), -- an origin, or a word such as inline
    page       text        not null check (char_length(page) between 1 and 200),    -- the route, such as /admin/users/{id}
    count      bigint      not null check (count > 0),
    first_seen timestamptz not null,
    last_seen  timestamptz not null,
    primary key (directive, blocked, page)
);
create index csp_reports_seen on csp_reports (last_seen);

insert into audit_excluded (pattern, reason) values
    ('sign\_in\_counts', 'counters'),
    ('csp\_reports', 'counters that anybody can make rise, deleted after 30 days');

select show_columns('sign_in_counts', '{hour,instance,outcome,count}');
select show_columns('csp_reports', '{directive,blocked,page,count,first_seen,last_seen}');

grant select, insert, update, delete on sign_in_counts, csp_reports to waypost_app;

-- +goose Down
drop table csp_reports;
drop table sign_in_counts;
delete from audit_excluded where pattern in ('sign\_in\_counts', 'csp\_reports');
delete from visible_columns where table_name in ('sign_in_counts', 'csp_reports');
