/* The controller's state of each model and of each of its versions. Only one thread at a time
 * touches it, the controller's. Other threads read catalogues made from it. */
#ifndef TT_CONTROL_MODEL_ENTRY_H
#define TT_CONTROL_MODEL_ENTRY_H

#include "model/repository/repository.h"
#include "policy/policy_candidates.h"
#include "serve/catalogue.h"
#include "serve/served_model.h"

struct tt_version_entry {
    char number[24];
    enum tt_model_state state;
    char reason[1024];
    struct tt_served_model *model; /* while READY; we hold the owner's reference */
    struct tt_model_stats *stats;  /* we hold a reference; NULL until the first load */
    int32_t leaving_count; /* models of earlier loads that still have requests; > 0 while UNLOADING
                            */
    int64_t load_count;    /* how often it began to serve another model */
    struct tt_version_entry *next;
};

struct tt_model_entry {
    char *name;
    uint64_t fingerprint; /* of the files of the last load; 0: not loaded, or loaded from a
                             command's files */
    struct tt_policy_candidate chosen; /* with policy auto; no policy: the default one */
    bool is_wanted; /* loaded, or to be loaded; false: only present in the repository */
    bool is_on_disk;
    int64_t load_number; /* of its last load, of all loads */
    /* Of an ensemble, of one model each; owned: what it serves, or tries to; what is to be loaded.
     * NULL: none. */
    struct tt_repository *ensemble, *pending;
    uint64_t links; /* tt_ensemble_links_stamp() when it was linked */
    bool is_tried;  /* a mark of control/ensemble_links.c */
    struct tt_version_entry *versions;
    struct tt_model_entry *next;
};

/* Returns the entry of the name; makes it if there is none. The list is sorted by name. NULL: no
 * memory. */
struct tt_model_entry *tt_model_entry_get(struct tt_model_entry **list, const char *name);
/* The same for a version. */
struct tt_version_entry *tt_version_entry_get(struct tt_model_entry *model, const char *number);
/* Moves the version to `state`, which must be legal. `model` is set before the move to READY, and
 * taken out before the move to UNLOADING. */
void tt_version_entry_set(struct tt_version_entry *self, enum tt_model_state state,
                          const char *reason);
/* Asserts the order of the lists, and of each version that its members agree with its state.
 * `leaving_count`: the sum over all versions. Called after each change of the models. */
void tt_model_entries_check(const struct tt_model_entry *list, int32_t leaving_count);
/* Counts the versions that have policy auto and run the candidate now. Adds `changes` to the
 * changes that each counts, and notes when its policy changed last. */
int32_t tt_model_entry_note_policy(struct tt_model_entry *self,
                                   const struct tt_policy_candidate *candidate, int64_t changed_at,
                                   int32_t changes);
/* Gives the reason to each version of `model` (NULL: not read) that does not serve; versions that
 * serve continue. If all of them serve what was loaded before, they have the reason. `failed`: the
 * version at fault; NULL: all. */
void tt_model_entry_fail(struct tt_model_entry *self, const struct tt_repository_model *model,
                         const char *failed, const char *reason);
/* True if some version serves. */
bool tt_model_entry_serves(const struct tt_model_entry *self);
/* Frees the entries. They must not hold models any more. */
void tt_model_entries_free(struct tt_model_entry *take_list);
/* Forgets models that clients brought: those that are in no repository and have no version that
 * serves or leaves, except the `most` that were loaded last. Returns how many it forgot. */
int32_t tt_model_entries_forget(struct tt_model_entry **list, int32_t most);
/* NULL: no memory. */
struct tt_catalogue *tt_model_entries_catalogue(const struct tt_model_entry *list);

#endif
