/* Ensembles of the repository, and the models that they need.
 *
 * Life of an ensemble: its load is put off (`pending`) until other loads of this occasion are done,
 * and its parts are loaded first. It is then linked: a served model is made that holds the parts as
 * they serve now. When a part is loaded again, fails or goes, the ensemble is stale and is linked
 * anew, or becomes UNAVAILABLE with the reason. What clients see changes with the same catalogue.
 * Requests in flight go on with the parts that they began with.
 *
 * These functions read the entries and change none, except their own marks. One thread, the
 * controller's, which carries out what they find (control/control.c). Implemented in
 * ensemble_links.c. */
#ifndef TT_CONTROL_ENSEMBLE_LINKS_H
#define TT_CONTROL_ENSEMBLE_LINKS_H

#include "control/model_entry.h"

struct tt_repository_model;

/* A model on disk that a pending ensemble needs, that does not serve, and that was not returned
 * since _restart; NULL: none. */
void tt_ensemble_links_restart(struct tt_model_entry *list);
struct tt_model_entry *tt_ensemble_links_missing(struct tt_model_entry *list);
/* A pending ensemble that needs no other pending one; if there is none, the first pending one;
 * NULL: none is pending. */
struct tt_model_entry *tt_ensemble_links_pending(struct tt_model_entry *list);
/* An ensemble whose parts are others than when it was linked; NULL: none. */
struct tt_model_entry *tt_ensemble_links_stale(struct tt_model_entry *list);
/* Which parts an ensemble would have now: another number for others; never 0. */
uint64_t tt_ensemble_links_stamp(const struct tt_model_entry *list,
                                 const struct tt_repository_model *model);
/* Makes version `version` of the ensemble of the parts that serve now. `stats`: see struct
 * tt_served_model_spec. Errors: INVALID, UNAVAILABLE (a part does not serve), NO_MEMORY; `why`
 * names step and tensor. */
TT_MUST_CHECK enum tt_err tt_ensemble_links_make(struct tt_model_entry *list,
                                                 const struct tt_repository_model *model,
                                                 int32_t version, struct tt_model_stats *stats,
                                                 struct tt_served_model **out_served,
                                                 struct tt_error *why);

#endif
