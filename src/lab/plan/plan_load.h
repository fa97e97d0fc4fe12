/* The load of a plan from what was seen: a recording's arrivals, or a live server's rates. */
#ifndef TT_LAB_PLAN_PLAN_LOAD_H
#define TT_LAB_PLAN_PLAN_LOAD_H

#include "lab/plan/plan_models.h"

struct tt_http_login_options;

/* Reads the requests of the planned models from all domains of a recording, in order of time, with
 * the models' objectives as deadlines. The caller frees `*out_arrivals`. Errors: INVALID (not a
 * recording, or none of the planned models is in it; the message lists those that are), IO. */
TT_MUST_CHECK enum tt_err tt_plan_load_recording(const char *path,
                                                 const struct tt_plan_models *models,
                                                 struct tt_sim_arrival **out_arrivals,
                                                 int64_t *out_count, struct tt_error *why);
/* Reads a server's metrics page twice, `second_ns` apart. Sets the models' weights; returns the
 * requests per second of all of them. Errors: UNAVAILABLE (no connection), INVALID (it serves none
 * of the models, or they had no requests). */
TT_MUST_CHECK enum tt_err tt_plan_load_live(const char *url,
                                            const struct tt_http_login_options *login,
                                            int64_t second_ns, struct tt_plan_models *models,
                                            double *out_rate, struct tt_error *why);
/* Writes arrivals as a file for `tutti load --arrivals`: those before `until_at`. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_plan_load_write(const char *path, const struct tt_plan_models *models,
                                             const struct tt_sim_arrival *arrivals, int64_t count,
                                             int64_t until_at, struct tt_error *why);

#endif
