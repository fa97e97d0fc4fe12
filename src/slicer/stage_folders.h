/* D1: which kept cuts are thrown away.
 *
 * A folder of cuts gathers one `stages-KEY` for every model file, release of the runtime, processor
 * and way of cutting that it ever saw. Whoever finds one good stamps it as used; whoever makes a
 * new one throws away those that nobody has used for long, and in a model's own folder all but the
 * few used last. Parts that somebody began and never finished go after a day. A cut that is thrown
 * away while a server runs it stays with that server (its weights are mapped), and is made again
 * when it is asked for again. */
#ifndef TT_SLICER_STAGE_FOLDERS_H
#define TT_SLICER_STAGE_FOLDERS_H

#include <stdint.h>

enum {
    TT_STAGE_FOLDERS_MOST = 8,         /* in a model's own folder */
    TT_STAGE_FOLDERS_UNUSED_DAYS = 30, /* anywhere */
};

/* It was used now. Where it cannot be written it keeps its stamp. */
void tt_stage_folders_used(const char *directory);
/* Throws away what is stale in `home`, but never `keep` (a name in it, may be NULL); `most` 0: no
 * bound on their number. Returns how many went. */
int32_t tt_stage_folders_prune(const char *home, const char *keep, int32_t most);

#endif
