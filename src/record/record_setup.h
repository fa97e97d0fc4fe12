/* What a recording says once: a domain's policy and limits, and each model that comes, as the
 * messages of proto/recording.proto, packed and read back. A new field of struct tt_step_model or
 * struct tt_policy_setup that policies decide by must be added here. Implemented in record_setup.c.
 */
#ifndef TT_RECORD_RECORD_SETUP_H
#define TT_RECORD_RECORD_SETUP_H

#include "policy/policy.h"

struct tt_record_domain {
    char *program, *policy;
    struct tt_option options[TT_MAX_OPTIONS]; /* owned strings where it was read */
    int32_t option_count;
    struct tt_mechanism_options limits; /* but request_reserve */
    int64_t d_ctrl_ns, d_data_ns, lateness_ns;
    int32_t scheduler_threads; /* of its own; 0: none */
};

struct tt_record_model {
    char *name;
    struct tt_step_model step_model; /* owns all it points to, where it was read */
};

/* Room for `head_bytes`, then the packed message; malloc'ed, the caller's. NULL: out of memory. */
void *tt_record_domain_pack(const struct tt_record_domain *domain, size_t head_bytes,
                            size_t *out_bytes);
void *tt_record_model_pack(const struct tt_step_model *model, size_t head_bytes, size_t *out_bytes);
/* INVALID: not such a message, or one that no mechanism would accept. A model's steps may take
 * fewer rows than the model (types of cells do). */
TT_MUST_CHECK enum tt_err tt_record_domain_read(const void *bytes, size_t count,
                                                struct tt_record_domain **out_domain,
                                                struct tt_error *why);
/* The setup of its policy, for another mechanism; borrows the options. */
struct tt_policy_setup tt_record_domain_setup(const struct tt_record_domain *domain,
                                              const struct tt_mechanism *mechanism);
void tt_record_domain_free(struct tt_record_domain *take_domain);
TT_MUST_CHECK enum tt_err tt_record_model_read(const void *bytes, size_t count,
                                               struct tt_record_model **out_model,
                                               struct tt_error *why);
void tt_record_model_free(struct tt_record_model *take_model);

#endif
