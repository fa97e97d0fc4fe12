/* The verbs of the program, one per file cmd_<verb>.c. Each prints results on stdout and messages
 * on stderr. Exit codes: outcome.h. */
#ifndef TT_CMD_VERBS_H
#define TT_CMD_VERBS_H

#include "cmd/flags.h"

extern const struct tt_verb tt_verb_serve, tt_verb_models, tt_verb_profile, tt_verb_slice,
    tt_verb_policies, tt_verb_experiment, tt_verb_replay, tt_verb_reproduce, tt_verb_compare,
    tt_verb_load, tt_verb_plan, tt_verb_place, tt_verb_token, tt_verb_top, tt_verb_bench,
    tt_verb_cluster, tt_verb_chaos, tt_verb_autoscale;

#endif
