"""The SQL of the ledger in PostgreSQL: its tables, the upgrades from older formats, and its longer statements."""

FORMAT = 3  # of the tables; kept in the table companyos_format

_SESSION_TABLES = """
CREATE TABLE companyos_session (
    id text COLLATE "C" PRIMARY KEY, created double precision NOT NULL, header bytea NOT NULL, owner text NOT NULL
);
CREATE INDEX companyos_session_created ON companyos_session (created);
CREATE INDEX companyos_session_owner ON companyos_session (owner);
CREATE TABLE companyos_turn (
    session text COLLATE "C" NOT NULL REFERENCES companyos_session ON DELETE CASCADE,
    turn integer NOT NULL, at double precision NOT NULL, call bytea NOT NULL,
    PRIMARY KEY (session, turn)
);
CREATE TABLE companyos_format (format integer NOT NULL);
"""
_HANDLE_AND_ATTEMPT_TABLES = """
CREATE TABLE companyos_handle (
    id text COLLATE "C" PRIMARY KEY, session text NOT NULL, created double precision NOT NULL, owner text NOT NULL
);
CREATE INDEX companyos_handle_created ON companyos_handle (created);
CREATE INDEX companyos_handle_owner ON companyos_handle (owner);
CREATE TABLE companyos_attempt (id text COLLATE "C" PRIMARY KEY, session text NOT NULL, owner text NOT NULL);
CREATE INDEX companyos_attempt_owner ON companyos_attempt (owner);
"""
# Format 1 stored the owner in the header alone.
_UPGRADE_FROM_1 = """
ALTER TABLE companyos_session ADD COLUMN owner text NOT NULL DEFAULT '';
UPDATE companyos_session SET owner = convert_from(header, 'UTF8')::json ->> 'owner';
CREATE INDEX companyos_session_owner ON companyos_session (owner);
"""
# Format 2 stored handles and attempts as sessions. The field `reward` of such a session was "handle" or "attempt", its field
# `task_id` was the id of the session that it belonged to, and the id of an attempt began with "~exam.".
_UPGRADE_FROM_2 = f"""
{_HANDLE_AND_ATTEMPT_TABLES}
INSERT INTO companyos_handle
SELECT id, convert_from(header, 'UTF8')::json ->> 'task_id', created, owner FROM companyos_session
WHERE convert_from(header, 'UTF8')::json ->> 'reward' = 'handle';
INSERT INTO companyos_attempt
SELECT substr(id, 7), convert_from(header, 'UTF8')::json ->> 'task_id', owner FROM companyos_session
WHERE convert_from(header, 'UTF8')::json ->> 'reward' = 'attempt';
DELETE FROM companyos_session WHERE convert_from(header, 'UTF8')::json ->> 'reward' IN ('handle', 'attempt');
"""
UPGRADES = {  # by the format that a database has; 0: it has no tables yet
    0: _SESSION_TABLES + _HANDLE_AND_ATTEMPT_TABLES,
    1: _UPGRADE_FROM_1 + _UPGRADE_FROM_2,
    2: _UPGRADE_FROM_2,
    FORMAT: "",
}

# Parameters: ids, times, headers and owners of the sessions; numbers and calls of the turns with which all of them begin.
BEGIN = """
WITH opened AS (
    INSERT INTO companyos_session (id, created, header, owner)
    SELECT * FROM unnest(%b::text[], %b::float8[], %b::bytea[], %b::text[]) RETURNING id, created
)
INSERT INTO companyos_turn (session, turn, at, call)
SELECT opened.id, made.turn, opened.created, made.call FROM opened, unnest(%b::int[], %b::bytea[]) AS made (turn, call)
"""
# Rows are locked in the same order in every batch, so that two batches cannot deadlock.
APPEND = """
INSERT INTO companyos_turn (session, turn, at, call)
SELECT * FROM unnest(%b::text[], %b::int[], %b::float8[], %b::bytea[]) AS row (session, turn, at, call)
ORDER BY session, turn
"""
READ = """
SELECT s.header, t.call, t.at FROM companyos_session s LEFT JOIN companyos_turn t ON t.session = s.id
WHERE s.id = %b ORDER BY t.turn
"""
LATER_CALLS = """
SELECT t.call FROM companyos_session s LEFT JOIN companyos_turn t ON t.session = s.id AND t.turn > %b
WHERE s.id = %b ORDER BY t.turn
"""
STORED_CALLS = """
SELECT session, turn, call FROM companyos_turn
JOIN unnest(%b::text[], %b::int[]) AS asked (session, turn) USING (session, turn)
"""
# The parameters are "name." and "name/". "/" is the character after ".", so this is a range of the primary key, which is
# sorted by bytes.
NEWEST = "SELECT id FROM companyos_session WHERE id > %s AND id < %s ORDER BY created DESC LIMIT 1"
PUT_HANDLE = """
INSERT INTO companyos_handle (id, session, created, owner) VALUES (%b, %b, %b, %b)
ON CONFLICT (id) DO UPDATE SET session = excluded.session, created = excluded.created, owner = excluded.owner
"""
# The condition that a session was last used before a time, which is passed twice.
SESSION_IS_OLD = "created < %b AND NOT EXISTS (SELECT FROM companyos_turn WHERE session = id AND at >= %b)"
# The condition occurs twice. PostgreSQL checks the outer one again on a handle that was changed in the meantime.
EXPIRE_HANDLES = """
DELETE FROM companyos_handle
WHERE id IN (SELECT id FROM companyos_handle WHERE created < %(before)b LIMIT %(room)b) AND created < %(before)b
"""
COUNT = """
SELECT (SELECT count(*) FROM companyos_session WHERE owner = %(owner)b)
     + (SELECT count(*) FROM companyos_handle WHERE owner = %(owner)b)
     + (SELECT count(*) FROM companyos_attempt WHERE owner = %(owner)b)
"""
