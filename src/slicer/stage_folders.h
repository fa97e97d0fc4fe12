/* D1: which kept cuts are removed.
 *
 * A folder of cuts collects one `stages-KEY` for every model file, release of the runtime,
 * processor and cut. A caller that finds a valid one marks it as used. A caller that creates one
 * removes those that were not used for long, and in a model's own folder all but the most recently
 * used. Unfinished parts are removed after a day. A cut that is removed while a server runs it
 * stays usable there (its weights are mapped); the next request for it creates it again. */
#ifndef TT_SLICER_STAGE_FOLDERS_H
#define TT_SLICER_STAGE_FOLDERS_H

#include <stdint.h>

enum {
    TT_STAGE_FOLDERS_MAX = 8,          /* in a model's own folder */
    TT_STAGE_FOLDERS_UNUSED_DAYS = 30, /* anywhere */
};

/* Marks the folder as used now. A folder that is not writable keeps its time. */
void tt_stage_folders_used(const char *directory);
/* Removes stale cuts in `home`, but never `keep` (a name in it, may be NULL), and the least
 * recently used beyond `most` (0: no limit). Returns the number removed. */
int32_t tt_stage_folders_prune(const char *home, const char *keep, int32_t most);

#endif
