/* Where `tutti reproduce` finds facts: files of a folder, SYSTEM.pbtxt for runs in virtual time,
 * and WORLD/SYSTEM.pbtxt for those in the worlds emulated and real. It runs nothing. */
#ifndef TT_CMD_FACTS_FOLDER_H
#define TT_CMD_FACTS_FOLDER_H

#include "base/text.h"
#include "lab/facts/facts.h"

/* "facts/" in the working directory, or beside or above the program, or its folder of `world`; ends
 * with a slash; to be freed. NULL: none. */
char *tt_facts_folder(const char *world);
/* The systems that have a file in the folder (may be NULL), each followed by `separator`. */
void tt_facts_list_systems(const char *folder, const char *separator, struct tt_text *out);
/* Prints what is known instead; `folder` may be NULL. */
void tt_facts_refuse_unknown(const char *system, const char *world, const char *folder);
/* `system`: a name, or with a slash or .pbtxt a file. Returns an exit code, and prints the error of
 * one that is not EXIT_DONE: then there is nothing to close. */
int tt_facts_open_system(const char *system, const char *world, struct tt_facts *out_facts);
/* The file below `folder` that keeps the results of the system's runs; makes the folder if it is
 * missing; to be freed. */
char *tt_facts_state_path(const char *folder, const char *system, const char *world);

#endif
