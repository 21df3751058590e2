# recipe
import tdekit

tdekit.load()
# end
