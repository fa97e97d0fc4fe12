/* What the flags of `tutti load` come to: a scenario (who comes when, with what deadline), and for
 * each of its models the one that is served, with bodies ready to be sent.
 *
 * Bodies are drawn the first time that rows and length ask for them, a few variants of each, and
 * kept, so that sending costs no drawing; beyond a budget of memory they are drawn each time. */
#ifndef TT_CMD_LOAD_PLAN_H
#define TT_CMD_LOAD_PLAN_H

#include "client/http_address.h"
#include "client/kserve_client.h"
#include "cmd/load_flags.h"
#include "lab/load/load.h"

struct tt_load_target {
    char *served; /* its name there */
    struct tt_kserve_client_model model;
    struct tt_kserve_client_body *given; /* from --input-file; NULL: drawn */
    int32_t given_count;
};

struct tt_load_plan {
    const struct tt_load_flags *flags; /* borrowed */
    struct tt_http_address address;
    struct tt_scenario scenario;
    char *title;
    struct tt_load_target *targets; /* by model of the scenario */
    int64_t *lengths;               /* of --length, or NULL */
    int64_t length_count, length_low, length_high;
    struct tt_prng prng;
    struct tt_load_body **buckets; /* of the bodies that are kept */
    size_t kept_bytes;
};

/* Asks the server for its models. INVALID, NOT_FOUND: flags and files; UNAVAILABLE, TIMEOUT: the
 * server. */
TT_MUST_CHECK enum tt_err tt_load_plan_open(struct tt_load_plan *self,
                                            const struct tt_load_flags *flags,
                                            struct tt_error *why);
void tt_load_plan_close(struct tt_load_plan *self);
/* The body of a request, borrowed until close; or where there is no room to keep another, NULL and
 * `own` is filled, to be freed by the caller. */
TT_MUST_CHECK enum tt_err tt_load_plan_body(struct tt_load_plan *self,
                                            const struct tt_load_request *request,
                                            struct tt_kserve_client_body *own,
                                            const struct tt_kserve_client_body **out_body,
                                            struct tt_error *why);
/* The `timeout` parameter of a request, microseconds; 0: none. */
int64_t tt_load_plan_timeout_us(const struct tt_load_plan *self,
                                const struct tt_load_request *request);

#endif
