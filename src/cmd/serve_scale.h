/* The flags --scale-... of `tutti serve --role scheduler`, and the provider that they choose.
 *
 * Life: _check (flags) -> _open, before the node joins -> the node -> _close. Without a provider
 * _open leaves `has_provider` false. Implemented in serve_scale.c. */
#ifndef TT_CMD_SERVE_SCALE_H
#define TT_CMD_SERVE_SCALE_H

#include "cmd/flags.h"
#include "fleet/cluster_tls.h"
#include "fleet/scaling_options.h"

struct tt_serve_scale_flags {
    const char *kubernetes, *kubernetes_url, *kubernetes_account, *command, *emulated;
    struct tt_flag_list limits;
    int64_t hold_ns, deliver_ns, drain_ns, call_ns, retry_ns, start_up_ns;
};

/* Rows of a table of flags (cmd/flags.h). The member is a designator, which takes no parentheses.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define TT_SERVE_SCALE_PROVIDERS "scale-kubernetes|scale-command|scale-emulated"
#define TT_SERVE_SCALE_FLAGS(member)                                                               \
    TT_TEXT("scale-kubernetes", "NAME", member.kubernetes, NULL,                                   \
            "a scheduler scales the StatefulSet NAME of each pool, by the load; {pool} in it is "  \
            "the pool's name"),                                                                    \
        TT_TEXT("scale-kubernetes-url", "URL", member.kubernetes_url, NULL,                        \
                "the API server (default: that of the pod)", .needs = "scale-kubernetes"),         \
        TT_TEXT("scale-kubernetes-account", "DIR", member.kubernetes_account, NULL,                \
                "the service account's token, ca.crt and namespace (default: those of the pod)",   \
                .needs = "scale-kubernetes"),                                                      \
        TT_TEXT("scale-command", "CMD", member.command, NULL,                                      \
                "a scheduler scales each pool with this command, which is run without a shell; "   \
                "{pool}, {devices}, {nodes} and {epoch} in it are replaced"),                      \
        TT_TEXT("scale-emulated", "DIR", member.emulated, NULL,                                    \
                "a scheduler scales with emulated backends on this host, and notes them in DIR"),  \
        TT_LIST("scale-limits", "POOL=MIN:MAX", member.limits, TT_FLAG_MAX_LIST,                   \
                "devices of a pool (default: one backend to all that the cluster describes)",      \
                .needs = TT_SERVE_SCALE_PROVIDERS),                                                \
        TT_DECIMAL("scale-hold-s", "S", member.hold_ns, 0, 86400, 300,                             \
                   "a pool shrinks when fewer devices were wanted for so long", .scale = TT_S,     \
                   .needs = TT_SERVE_SCALE_PROVIDERS),                                             \
        TT_DECIMAL("scale-deliver-s", "S", member.deliver_ns, 0.1, 86400, 600,                     \
                   "devices that were promised serve within this time, or are asked for again",    \
                   .scale = TT_S, .needs = TT_SERVE_SCALE_PROVIDERS),                              \
        TT_DECIMAL("scale-drain-s", "S", member.drain_ns, 0.1, 86400, 60,                          \
                   "time of a backend to end its work before it is stopped", .scale = TT_S,        \
                   .needs = TT_SERVE_SCALE_PROVIDERS),                                             \
        TT_DECIMAL("scale-call-s", "S", member.call_ns, 0.1, 3600, 30,                             \
                   "time limit of a command, or of a request to Kubernetes", .scale = TT_S,        \
                   .needs = TT_SERVE_SCALE_PROVIDERS),                                             \
        TT_DECIMAL("scale-retry-s", "S", member.retry_ns, 0.1, 3600, 10,                           \
                   "wait after a failure; twice as long after each further one, up to 60 times",   \
                   .scale = TT_S, .needs = TT_SERVE_SCALE_PROVIDERS),                              \
        TT_DECIMAL("scale-start-up-s", "S", member.start_up_ns, 0, 86400, 0,                       \
                   "from the order of a backend until it serves: growing loads get backends so "   \
                   "much earlier; 0: as long as earlier starts took",                              \
                   .scale = TT_S, .needs = TT_SERVE_SCALE_PROVIDERS)
/* NOLINTEND(bugprone-macro-parentheses) */

/* What an emulated backend needs to start; borrowed. */
struct tt_serve_scale_context {
    const char *cluster, *key;
    const struct tt_cluster_tls_files *tls;
    const char *const *repositories; /* [repository_count] */
    int32_t repository_count;
    bool is_explicit; /* --model-control-mode explicit */
};

struct tt_serve_scale {
    bool has_provider;
    struct tt_scaling_options options;
    struct tt_scaling_limit limits[TT_FLAG_MAX_LIST];
    char *names; /* of the limits' pools */
    const char **args;
};

/* INVALID: the flags do not go together, or a limit is malformed. */
TT_MUST_CHECK enum tt_err tt_serve_scale_check(const struct tt_serve_scale_flags *flags,
                                               bool is_scheduler, struct tt_error *why);
/* Errors: those of the providers (actuate/). */
TT_MUST_CHECK enum tt_err tt_serve_scale_open(struct tt_serve_scale *self,
                                              const struct tt_serve_scale_flags *flags,
                                              const struct tt_serve_scale_context *context,
                                              struct tt_error *why);
void tt_serve_scale_close(struct tt_serve_scale *self); /* also of zeroed memory */

#endif
