/* The controller's books: what it knows of each model and each of its versions. Touched by one
 * thread at a time, the controller's; everybody else sees catalogues made from it. */
#ifndef TT_CONTROL_MODEL_ENTRY_H
#define TT_CONTROL_MODEL_ENTRY_H

#include "serve/catalogue.h"
#include "serve/served_model.h"

struct tt_version_entry {
    char number[24];
    enum tt_model_state state;
    char reason[1024];
    struct tt_served_model *model; /* while READY; the owner's reference */
    struct tt_model_stats *stats;  /* a reference; NULL until it is first loaded */
    int32_t leaving_count;         /* loaded earlier, still finishing */
    struct tt_version_entry *next;
};

struct tt_model_entry {
    char *name;
    uint64_t fingerprint; /* of the files that the last load saw; 0: never, or not from there */
    bool is_wanted;       /* loaded, or to be: not one that only lies in the repository */
    bool is_on_disk;
    struct tt_version_entry *versions;
    struct tt_model_entry *next;
};

/* The entry of the name, made if need be, in a list by name; NULL when memory is out. */
struct tt_model_entry *tt_model_entry_get(struct tt_model_entry **list, const char *name);
/* The same of a version. */
struct tt_version_entry *tt_version_entry_get(struct tt_model_entry *model, const char *number);
void tt_version_entry_set(struct tt_version_entry *self, enum tt_model_state state,
                          const char *reason);
/* Frees the books, not the models: none is left in them. */
void tt_model_entries_free(struct tt_model_entry *take_list);
/* NULL when memory is out. */
struct tt_catalogue *tt_model_entries_catalogue(const struct tt_model_entry *list);

#endif
