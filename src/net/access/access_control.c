#include "net/access/access_control.h"

#include "base/log/log.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_BYTES = 200 };

enum tt_err tt_access_control_init(struct tt_access_control *self, const char *token_path,
                                   bool is_split, struct tt_log *log, struct tt_error *why) {
    struct tt_token_table *table = NULL;
    enum tt_err err = token_path ? tt_token_table_read(token_path, NULL, &table, why) : TT_OK;
    if (err)
        return err;
    *self = (struct tt_access_control){.token_path = token_path, .log = log, .is_split = is_split};
    tt_published_init(&self->tokens);
    if (table)
        tt_published_set(&self->tokens, &table->shared);
    return TT_OK;
}

void tt_access_control_fini(struct tt_access_control *self) { tt_published_fini(&self->tokens); }

static const struct tt_token_table *table_of(struct tt_access_control *self,
                                             struct tt_published_view *view) {
    struct tt_shared *value = tt_published_get(&self->tokens, view);
    return value ? TT_CONTAINER_OF(value, struct tt_token_table, shared) : NULL;
}

void tt_access_control_reload(struct tt_access_control *self) {
    struct tt_published_view view = {0};
    struct tt_token_table *table;
    struct tt_error why;
    if (!self->token_path)
        return;
    enum tt_err err = tt_token_table_read(self->token_path, table_of(self, &view), &table, &why);
    if (err) {
        tt_log_write(self->log, TT_LOG_ERROR, NULL, "the former tokens stay in force: %s",
                     why.text);
    } else {
        int32_t count = table->count;
        tt_published_set(&self->tokens, &table->shared); /* in force before the log says so */
        tt_log_write(self->log, TT_LOG_INFO, NULL, "tokens read again: %d in %s", count,
                     self->token_path);
    }
    tt_published_view_fini(&view);
}

void tt_gate_init(struct tt_gate *self, struct tt_access_control *access, enum tt_gate_kind kind) {
    *self = (struct tt_gate){.access = access, .kind = kind};
}

void tt_gate_fini(struct tt_gate *self) { tt_published_view_fini(&self->view); }

/* With tokens, for an operation that is not open. */
static enum tt_verdict check_token(const struct tt_token_table *table, enum tt_operation operation,
                                   const struct tt_token *token, int64_t now,
                                   struct tt_identity **out_identity, struct tt_error *why) {
    struct tt_identity *identity =
        token->is_given ? tt_token_table_find(table, &token->digest) : NULL;
    if (!identity) {
        tt_fail(TT_ERR_INVALID, why, "%s",
                token->is_given
                    ? "the token is not known to this server"
                    : "this server needs a token: send the header Authorization: Bearer TOKEN");
        return TT_VERDICT_NO_TOKEN;
    }
    tt_byte_holder_ref(&identity->holder);
    *out_identity = identity; /* for the logs, if it is refused */
    if (!tt_role_may(identity->role, operation)) {
        tt_fail(TT_ERR_INVALID, why, "the role %s may not do this (%s)",
                tt_role_name(identity->role), tt_operation_name(operation));
        return TT_VERDICT_ROLE;
    }
    if (!tt_client_limits_pace(&identity->holder.limits, identity->rate_limit, now)) {
        tt_fail(TT_ERR_BUSY, why, "%s has reached its limit of %lld requests per second",
                identity->name, (long long)identity->rate_limit);
        return TT_VERDICT_LIMIT;
    }
    return TT_VERDICT_ALLOWED;
}

enum tt_verdict tt_gate_check(struct tt_gate *self, enum tt_operation operation,
                              const struct tt_token *token, int64_t now,
                              struct tt_identity **out_identity, struct tt_error *why) {
    struct tt_access_control *access = self->access;
    *out_identity = NULL;
    if (!access || self->kind == TT_GATE_LOCAL || tt_operation_is_open(operation))
        return TT_VERDICT_ALLOWED;
    const struct tt_token_table *table = table_of(access, &self->view);
    enum tt_verdict verdict = TT_VERDICT_ALLOWED;
    if (table)
        verdict = check_token(table, operation, token, now, out_identity, why);
    if (verdict == TT_VERDICT_ALLOWED && access->is_split && self->kind == TT_GATE_PUBLIC &&
        tt_operation_is_management(operation)) {
        tt_fail(TT_ERR_INVALID, why, "management is on the admin interface of this server only");
        verdict = TT_VERDICT_ELSEWHERE;
    }
    return verdict;
}

bool tt_identity_enter(struct tt_identity *self, struct tt_error *why) {
    if (!self || tt_client_limits_enter(&self->holder.limits, self->in_flight_limit))
        return true;
    tt_fail(TT_ERR_BUSY, why, "%s has reached its limit of %lld inferences at a time", self->name,
            (long long)self->in_flight_limit);
    return false;
}

void tt_identity_leave(struct tt_identity *self) {
    if (self)
        tt_client_limits_leave(&self->holder.limits);
}

struct tt_identity *tt_gate_identity(struct tt_gate *self, const struct tt_token *token) {
    if (!self->access || self->kind == TT_GATE_LOCAL || !token->is_given)
        return NULL;
    const struct tt_token_table *table = table_of(self->access, &self->view);
    struct tt_identity *identity = table ? tt_token_table_find(table, &token->digest) : NULL;
    if (identity)
        tt_byte_holder_ref(&identity->holder);
    return identity;
}

struct tt_byte_holder *tt_identity_holder(struct tt_identity *self,
                                          struct tt_byte_holder *address) {
    return self && self->holder.bytes_limit ? &self->holder : address;
}

/* Printable ASCII, so that a client cannot forge lines; without the query, which may have secrets.
 */
static void show(const char *text, char out[SHOWN_BYTES]) {
    size_t length = 0;
    for (; text[length] && text[length] != '?' && length < SHOWN_BYTES - 1; length++)
        out[length] = (char)(text[length] > ' ' && text[length] < 127 ? text[length] : '.');
    out[length] = '\0';
}

void tt_gate_audit(const struct tt_gate *self, const struct tt_identity *identity,
                   const char *method, const char *target, bool is_done, const char *result) {
    if (!self->access)
        return;
    char shown_method[SHOWN_BYTES], shown_target[SHOWN_BYTES];
    show(method, shown_method);
    show(target, shown_target);
    const char *name = self->kind == TT_GATE_LOCAL ? "(admin socket)" : "(no identity)";
    if (identity)
        name = identity->name;
    if (is_done)
        tt_log_always(self->access->log, TT_LOG_INFO, !identity && self->kind != TT_GATE_LOCAL,
                      "audit: %s: %s %s: %s", name, shown_method, shown_target, result);
    else
        tt_log_always(self->access->log, TT_LOG_WARNING, true, "audit: refused: %s: %s %s: %s",
                      name, shown_method, shown_target, result);
}
