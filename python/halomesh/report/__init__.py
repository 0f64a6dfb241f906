# SPDX-License-Identifier: Apache-2.0
"""The command `report`: runs as one HTML page of figures and tables.

inputs.py reads the files; the modules with "sections" in their names make tables and figures from them as
data (model.py); drawing.py draws figures by Matplotlib, and page.py sets the page by Jinja2.
"""
