/* Recorded models in the form that other policies need.
 *
 * A type of cells may take fewer rows than its model. By cells each type has batches of its own; a
 * policy that runs whole sequences runs more rows as several batches in sequence. A policy that
 * does not work by cells reads a step's profile up to the model's largest batch, so the profile is
 * widened to it. To be simulated by steps, a model of rows (replay_cells.h) gets the blocks that
 * its chains are, and batches that fit all of them. */
#ifndef TT_LAB_REPLAY_REPLAY_MODELS_H
#define TT_LAB_REPLAY_REPLAY_MODELS_H

#include "lab/replay/replay_cells.h"
#include "lab/scenario/scenario.h"
#include "record/record_setup.h"

/* Why a domain with these limits cannot have the model, under a policy that works by cells or not;
 * NULL: it can. */
const char *tt_replay_models_refuse(const struct tt_record_model *model,
                                    const struct tt_mechanism_options *limits, bool by_cells);
/* Widens the profiles of the model's steps in place. Errors: NO_MEMORY, INVALID. */
TT_MUST_CHECK enum tt_err tt_replay_models_widen(struct tt_record_model *model,
                                                 struct tt_error *why);
/* Turns the scenario's model, a copy of the recorded one with that number, into one that runs by
 * steps. The scenario owns and frees what is allocated. Errors: UNSUPPORTED (its requests are not
 * rows), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_replay_models_by_steps(struct tt_scenario_model *model, int32_t number,
                                                    const struct tt_replay_cells *cells,
                                                    struct tt_error *why);

#endif
