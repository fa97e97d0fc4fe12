/* tutti plan --fleet FILE: devices of which types for models whose rates change by the hour. */
#ifndef TT_CMD_PLAN_FLEET_H
#define TT_CMD_PLAN_FLEET_H

#include <stdbool.h>

/* Plans, checks, prints. `html` may be NULL. Returns the exit code. */
int tt_plan_fleet(const char *path, bool json, const char *html);

#endif
