"""The data inside of a report page."""
import json
import re


def data_of(path):
    """What the page at `path` draws; fails where the page has no data, or more than one piece of it."""
    (found,) = re.findall('<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)
    return json.loads(found)
