/* Access control of calls, by the operation of the method and the token of the headers; and their
 * entries of the journal. */
#include "base/clock.h"
#include "net/grpc/grpc_call.h"
#include "net/grpc/grpc_methods.h"

#include <stdio.h>

static enum tt_grpc_status status_of(enum tt_verdict verdict) {
    switch (verdict) {
    case TT_VERDICT_NO_TOKEN: return TT_GRPC_UNAUTHENTICATED;
    case TT_VERDICT_LIMIT: return TT_GRPC_RESOURCE_EXHAUSTED;
    case TT_VERDICT_ALLOWED:
    case TT_VERDICT_ROLE:
    case TT_VERDICT_ELSEWHERE: break;
    }
    return TT_GRPC_PERMISSION_DENIED;
}

enum tt_grpc_status tt_grpc_call_check(struct tt_grpc_call *self, struct tt_error *why) {
    struct tt_gate *gate = self->all->gate;
    if (!gate || !gate->access || !tt_access_control_restricts(gate->access))
        return TT_GRPC_OK;
    enum tt_verdict verdict = tt_gate_check(gate, self->method->operation, &self->token,
                                            tt_clock_now(), &self->identity, why);
    if (verdict == TT_VERDICT_ALLOWED)
        return TT_GRPC_OK;
    tt_grpc_call_audit(self, false, why->text);
    return status_of(verdict);
}

enum tt_grpc_status tt_grpc_call_admit(struct tt_grpc_call *self, struct tt_identity **out_identity,
                                       struct tt_error *why) {
    struct tt_identity *identity = NULL;
    enum tt_verdict verdict = TT_VERDICT_ALLOWED;
    *out_identity = NULL;
    if (!self->identity)
        return TT_GRPC_OK;
    if (self->method->kind == TT_GRPC_STREAM && self->has_inferred) {
        verdict = tt_gate_check(self->all->gate, self->method->operation, &self->token,
                                tt_clock_now(), &identity, why);
    } else {
        identity = self->identity;
        tt_byte_holder_ref(&identity->holder);
    }
    self->has_inferred = true;
    if (verdict == TT_VERDICT_ALLOWED && !tt_identity_enter(identity, why))
        verdict = TT_VERDICT_LIMIT;
    if (verdict == TT_VERDICT_ALLOWED) {
        *out_identity = identity;
        return TT_GRPC_OK;
    }
    tt_identity_unref(identity);
    tt_grpc_call_audit(self, false, why->text);
    return status_of(verdict);
}

void tt_grpc_call_audit(const struct tt_grpc_call *self, bool is_done, const char *result) {
    if (self->all->gate)
        tt_gate_audit(self->all->gate, self->identity, "gRPC", self->method->name, is_done, result);
}

void tt_grpc_call_log(struct tt_grpc_call *self, const struct tt_journal_entry *entry,
                      const struct tt_access_line *line) {
    char path[128];
    struct tt_access_line full = *line;
    snprintf(path, sizeof(path), "/%s/%s", self->method ? self->method->service : "",
             self->method ? self->method->name : "");
    full.method = "gRPC";
    full.path = self->method ? path : "";
    full.client = &self->stream.session->peer;
    self->has_line = true;
    tt_journal_end(&self->all->journal, entry, &full);
}
