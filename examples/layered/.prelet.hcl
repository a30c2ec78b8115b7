layers  = ["image", "site"]
objects = "../objects"
