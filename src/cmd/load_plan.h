/* The plan of `tutti load`, made from its flags: a scenario (arrivals, deadlines), and for each of
 * its models the served model and the request bodies.
 *
 * A body is drawn when its rows and length are first asked for. A few variants of each are kept, so
 * that sending costs no drawing; beyond a memory budget each body is drawn anew. */
#ifndef TT_CMD_LOAD_PLAN_H
#define TT_CMD_LOAD_PLAN_H

#include "client/http_address.h"
#include "client/http_login.h"
#include "client/kserve_client.h"
#include "cmd/load_flags.h"
#include "lab/load/load.h"

struct tt_load_target {
    char *served; /* name on the server */
    struct tt_kserve_client_model model;
    struct tt_kserve_client_body *given; /* from --input-file; NULL: drawn */
    int32_t given_count;
};

struct tt_load_plan {
    const struct tt_load_flags *flags; /* borrowed */
    struct tt_http_address address;
    struct tt_http_login login;
    struct tt_scenario scenario;
    char *title;
    struct tt_load_target *targets; /* by model of the scenario */
    int64_t *lengths;               /* of --length, or NULL */
    int64_t length_count, length_low, length_high;
    struct tt_prng prng;
    struct tt_load_body **buckets; /* hash table of kept bodies */
    size_t kept_bytes;
};

/* Asks the server for the models' metadata. INVALID, NOT_FOUND: flags and files; UNAVAILABLE,
 * TIMEOUT: the server. */
TT_MUST_CHECK enum tt_err tt_load_plan_open(struct tt_load_plan *self,
                                            const struct tt_load_flags *flags,
                                            struct tt_error *why);
void tt_load_plan_close(struct tt_load_plan *self);
/* The body of a request, borrowed until close. If the budget allows no other body, *out_body is
 * NULL and `own` is filled; the caller frees it. */
TT_MUST_CHECK enum tt_err tt_load_plan_body(struct tt_load_plan *self,
                                            const struct tt_load_request *request,
                                            struct tt_kserve_client_body *own,
                                            const struct tt_kserve_client_body **out_body,
                                            struct tt_error *why);
/* The `timeout` parameter of a request, microseconds; 0: none. */
int64_t tt_load_plan_timeout_us(const struct tt_load_plan *self,
                                const struct tt_load_request *request);

#endif
