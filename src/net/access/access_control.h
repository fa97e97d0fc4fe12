/* Access control of a server: the identity of a request, whether it may do what it asks for, and
 * the audit lines.
 *
 * `struct tt_access` is the server's: the tokens in force, and whether management has an interface
 * of its own. A listener's thread has a `struct tt_gate`. For each request the thread calls
 * tt_gate_check() with the operation and the token, and keeps the identity until the request ends.
 * Management and what is refused gets a line in the log (tt_gate_audit()).
 *
 * Without tokens every client may do all that the interface offers. Health needs no token. A
 * Unix socket is guarded by its file permissions: its clients are admin, and need no token.
 *
 * It never sees a token, only digests. Implemented in access_control.c. */
#ifndef TT_NET_ACCESS_ACCESS_CONTROL_H
#define TT_NET_ACCESS_ACCESS_CONTROL_H

#include "net/access/token_file.h"

struct tt_log;

struct tt_access_control {
    const char *token_path; /* NULL: no tokens */
    struct tt_published tokens;
    struct tt_log *log;
    bool is_split; /* management is on the admin interface only */
};

enum tt_gate_kind {
    TT_GATE_PUBLIC,
    TT_GATE_ADMIN, /* the admin interface over TCP */
    TT_GATE_LOCAL, /* the same over a Unix socket */
};

/* One thread's. `access` NULL: there is no access control. */
struct tt_gate {
    struct tt_access_control *access;
    enum tt_gate_kind kind;
    struct tt_published_view view;
};

enum tt_verdict {
    TT_VERDICT_ALLOWED,
    TT_VERDICT_NO_TOKEN,  /* none, or one that is not in the file */
    TT_VERDICT_ROLE,      /* the role may not */
    TT_VERDICT_ELSEWHERE, /* it belongs to the admin interface */
    TT_VERDICT_LIMIT,     /* a limit of the identity is reached */
};

/* `token_path` NULL: none; borrowed, like `log`, until fini. Reads the tokens. Errors: those of
 * tt_token_table_read(). */
TT_MUST_CHECK enum tt_err tt_access_control_init(struct tt_access_control *self,
                                                 const char *token_path, bool is_split,
                                                 struct tt_log *log, struct tt_error *why);
/* Every gate is finished. */
void tt_access_control_fini(struct tt_access_control *self);
/* Reads the file of tokens again; if it is broken, the tokens stay. Logs which. Any thread, one at
 * a time. */
void tt_access_control_reload(struct tt_access_control *self);

/* False: without a look at the token everything is allowed. */
static inline bool tt_access_control_restricts(const struct tt_access_control *self) {
    return self->token_path || self->is_split;
}

void tt_gate_init(struct tt_gate *self, struct tt_access_control *access, enum tt_gate_kind kind);
void tt_gate_fini(struct tt_gate *self);
/* `now` is an instant of tt_clock_now(). If it is allowed and the token has an identity,
 * `*out_identity` is a reference for tt_identity_unref(), also if the identity is known and
 * refused; else NULL. Other verdicts: `why` has the sentence for the client. */
enum tt_verdict tt_gate_check(struct tt_gate *self, enum tt_operation operation,
                              const struct tt_token *token, int64_t now,
                              struct tt_identity **out_identity, struct tt_error *why);
/* True: an inference of the identity begins; tt_identity_leave() ends it. NULL-safe. */
bool tt_identity_enter(struct tt_identity *self, struct tt_error *why);
void tt_identity_leave(struct tt_identity *self);
/* The identity of the token, a reference, without a look at its role; NULL: none. */
struct tt_identity *tt_gate_identity(struct tt_gate *self, const struct tt_token *token);
/* The holder that a request's bytes count for: the identity if it has a limit of bytes, else the
 * address, whose holder may be NULL. Borrowed. NULL-safe. */
struct tt_byte_holder *tt_identity_holder(struct tt_identity *self, struct tt_byte_holder *address);

/* Logs what a client did or tried, whatever levels clients switched off: `method` and `target` as
 * it sent them, without the query, and the result. At most some lines a second of what was refused,
 * and of clients without a name; what a named one did is never left out. */
void tt_gate_audit(const struct tt_gate *self, const struct tt_identity *identity,
                   const char *method, const char *target, bool is_done, const char *result);

#endif
